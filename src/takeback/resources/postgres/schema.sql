-- What is kept in a guarded database: all of it is in this one schema.

CREATE SCHEMA takeback;

CREATE TABLE takeback.guard (
    id uuid NOT NULL,
    version integer NOT NULL,
    schemas text[] NOT NULL,
    sees_ddl boolean NOT NULL
);

-- By this word the triggers know what we do ourselves.
CREATE TABLE takeback.secret (word text NOT NULL);
INSERT INTO takeback.secret VALUES (gen_random_uuid()::text);

-- One row for each statement and table. `action` is what the session said it works for.
CREATE TABLE takeback.statement (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    xid bigint NOT NULL DEFAULT txid_current(),
    action text NOT NULL,
    role text NOT NULL DEFAULT session_user,
    op text NOT NULL,
    relation oid NOT NULL,
    schema text NOT NULL,
    name text NOT NULL,
    shape text NOT NULL,
    lines bigint NOT NULL DEFAULT 0,
    detail jsonb,
    undone_by text
);
CREATE INDEX ON takeback.statement (action);
CREATE INDEX ON takeback.statement (undone_by) WHERE undone_by IS NOT NULL;

-- The rows that a statement took away and added, as PostgreSQL itself writes them out.
CREATE TABLE takeback.line (
    statement bigint NOT NULL,
    added boolean NOT NULL,
    data text NOT NULL
);
CREATE INDEX ON takeback.line (statement);

-- Whoever writes may find out that there is a guard, and nothing else.
REVOKE ALL ON ALL TABLES IN SCHEMA takeback FROM PUBLIC;
GRANT USAGE ON SCHEMA takeback TO PUBLIC;
GRANT SELECT ON takeback.guard TO PUBLIC;

CREATE FUNCTION takeback.action() RETURNS text LANGUAGE sql STABLE
    AS $$ SELECT coalesce(pg_catalog.current_setting('takeback.action', true), '') $$;

-- The columns of a table with their types: rows are understood only by a table of the same shape.
CREATE FUNCTION takeback.shape(target oid) RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT coalesce(string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum), '')
    FROM pg_attribute WHERE attrelid = target AND attnum > 0 AND NOT attisdropped
    $$;

-- The table that a partition belongs to, or the table itself.
CREATE FUNCTION takeback.root(target oid) RETURNS oid LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT CASE WHEN relispartition THEN pg_partition_root(oid)::oid ELSE oid END FROM pg_class WHERE oid = target
    $$;

CREATE FUNCTION takeback.quoted(target oid) RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT format('%I.%I', nspname, relname)
    FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE c.oid = target
    $$;

-- A row of `target` as text of the row type of its root. What is generated is left out: it follows from the rest.
CREATE FUNCTION takeback.written(target oid, alias text) RETURNS text LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
    AS $$
    DECLARE
        root oid := takeback.root(target);
        columns text;
    BEGIN
        IF root = target AND NOT EXISTS (
            SELECT FROM pg_attribute
            WHERE attrelid = root AND attnum > 0 AND NOT attisdropped AND attgenerated <> ''
        ) THEN
            -- With the star it is the row, also where a column has the name of the alias.
            RETURN format('(%s.*)::%s::text', alias, takeback.quoted(root));
        END IF;
        SELECT string_agg(CASE attgenerated WHEN '' THEN format('%s.%I', alias, attname) ELSE 'NULL' END, ', ' ORDER BY attnum)
        INTO columns FROM pg_attribute WHERE attrelid = root AND attnum > 0 AND NOT attisdropped;
        RETURN format('ROW(%s)::%s::text', columns, takeback.quoted(root));
    END
    $$;
