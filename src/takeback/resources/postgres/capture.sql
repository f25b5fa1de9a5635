-- Triggers that write down what an action changes. Who says no action is not written down.

-- How every value is written out and read again, whatever the session has chosen.
CREATE FUNCTION takeback.settings() RETURNS text LANGUAGE sql IMMUTABLE
    AS $$
    SELECT 'SET search_path = pg_catalog, pg_temp SET datestyle = ''ISO, YMD'' SET intervalstyle = postgres '
        'SET timezone = ''UTC'' SET bytea_output = hex SET extra_float_digits = 1 SET lc_monetary = ''C'' '
        'SET xmloption = content SET row_security = off'
    $$;

-- Make the function that writes down what happens to one table.
CREATE FUNCTION takeback.make_writer(target oid) RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $made$
    DECLARE
        writer text := format('takeback.%I', 'capture_' || target);
        root oid := takeback.root(target);
        knows boolean := (SELECT sees_ddl FROM takeback.guard);
        shape text := CASE WHEN knows THEN quote_literal(takeback.shape(root)) ELSE format('takeback.shape(%s)', root) END;
        schema text;
        name text;
        body text;
    BEGIN
        SELECT nspname, relname INTO schema, name
        FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE c.oid = root;
        body := format(
            $body$
            DECLARE
                number bigint := nextval('takeback.statement_id_seq');
                gone bigint := 0;
                come bigint := 0;
            BEGIN
                IF TG_OP = 'TRUNCATE' THEN
                    INSERT INTO takeback.line SELECT number, false, %1$s FROM ONLY %2$s o;
                    GET DIAGNOSTICS gone = ROW_COUNT;
                END IF;
                IF TG_OP IN ('UPDATE', 'DELETE') THEN
                    INSERT INTO takeback.line SELECT number, false, %1$s FROM takeback_old o;
                    GET DIAGNOSTICS gone = ROW_COUNT;
                END IF;
                IF TG_OP IN ('UPDATE', 'INSERT') THEN
                    INSERT INTO takeback.line SELECT number, true, %1$s FROM takeback_new o;
                    GET DIAGNOSTICS come = ROW_COUNT;
                END IF;
                IF gone + come > 0 THEN
                    INSERT INTO takeback.statement (id, action, op, relation, schema, name, shape, lines)
                    OVERRIDING SYSTEM VALUE
                    VALUES (number, takeback.action(), lower(TG_OP), %3$s, %4$L, %5$L, %6$s, greatest(gone, come));
                END IF;
                RETURN NULL;
            END
            $body$,
            takeback.written(target, 'o'), takeback.quoted(target), root, schema, name, shape
        );
        EXECUTE format(
            'CREATE OR REPLACE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER %s AS %L',
            writer, takeback.settings(), body
        );
        EXECUTE format('REVOKE ALL ON FUNCTION %s() FROM PUBLIC', writer);
        RETURN writer;
    END
    $made$;

-- Guard one table, or guard it anew after its columns changed. `busy` says that this is no doing of an action.
CREATE FUNCTION takeback.watch(target oid) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
    DECLARE
        writer text;
        kind "char" := (SELECT relkind FROM pg_class WHERE oid = target);
        named text := takeback.quoted(target);
        event text;
        sources text;
        state "char";
    BEGIN
        PERFORM set_config('takeback.busy', (SELECT word FROM takeback.secret), true);
        writer := takeback.make_writer(target);
        FOREACH event IN ARRAY ARRAY['insert', 'update', 'delete', 'truncate'] LOOP
            CONTINUE WHEN event = 'truncate' AND kind = 'p';
            sources := CASE event
                WHEN 'insert' THEN 'REFERENCING NEW TABLE AS takeback_new'
                WHEN 'update' THEN 'REFERENCING OLD TABLE AS takeback_old NEW TABLE AS takeback_new'
                WHEN 'delete' THEN 'REFERENCING OLD TABLE AS takeback_old'
                ELSE '' END;
            state := (SELECT tgenabled FROM pg_trigger WHERE tgrelid = target AND tgname = 'takeback_' || event);
            IF state IS NULL THEN
                EXECUTE format(
                    'CREATE TRIGGER %I %s %s ON %s %s FOR EACH STATEMENT '
                    'WHEN (coalesce(current_setting(''takeback.action'', true), '''') <> '''') EXECUTE FUNCTION %s()',
                    'takeback_' || event, CASE event WHEN 'truncate' THEN 'BEFORE' ELSE 'AFTER' END, event, named,
                    sources, writer
                );
            END IF;
            -- Also while an undo keeps all other triggers still, and after somebody disabled them all.
            IF state IS DISTINCT FROM 'A' THEN
                EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', named, 'takeback_' || event);
            END IF;
        END LOOP;
        PERFORM set_config('takeback.busy', '', true);
    END
    $$;

CREATE FUNCTION takeback.unwatch(target oid) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
    DECLARE
        event text;
    BEGIN
        PERFORM set_config('takeback.busy', (SELECT word FROM takeback.secret), true);
        FOREACH event IN ARRAY ARRAY['insert', 'update', 'delete', 'truncate'] LOOP
            EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', 'takeback_' || event, takeback.quoted(target));
        END LOOP;
        EXECUTE format('DROP FUNCTION IF EXISTS takeback.%I()', 'capture_' || target);
        PERFORM set_config('takeback.busy', '', true);
    END
    $$;

-- What a table that is gone leaves behind.
CREATE FUNCTION takeback.forget(target oid) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
    BEGIN
        PERFORM set_config('takeback.busy', (SELECT word FROM takeback.secret), true);
        EXECUTE format('DROP FUNCTION IF EXISTS takeback.%I()', 'capture_' || target);
        PERFORM set_config('takeback.busy', '', true);
    END
    $$;

-- The tables in guarded schemas, and why some of them cannot be guarded.
CREATE FUNCTION takeback.tables(OUT target oid, OUT named text, OUT why text) RETURNS SETOF record LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT c.oid, format('%I.%I', nspname, relname),
        CASE
            WHEN relkind = 'f' THEN 'a foreign table'
            WHEN relkind = 'r' AND EXISTS (
                SELECT FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent
                WHERE (inhparent = c.oid OR inhrelid = c.oid) AND p.relkind <> 'p'
            ) THEN 'it inherits, or is inherited from'
            WHEN relkind = 'r' AND EXISTS (
                SELECT FROM pg_partition_tree(pg_partition_root(c.oid)) t JOIN pg_class m ON m.oid = t.relid
                WHERE relispartition AND m.relkind = 'f'
            ) THEN 'a foreign table is among its partitions'
            WHEN relrowsecurity AND NOT may_see_all AND (relforcerowsecurity OR NOT pg_has_role(keeper, relowner, 'USAGE'))
                THEN 'its policies hide rows from the role that guards it, which lacks BYPASSRLS'
            ELSE ''
        END
    FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace,
        (SELECT r.oid AS keeper, rolsuper OR rolbypassrls AS may_see_all FROM pg_roles r JOIN pg_namespace ON nspowner = r.oid
            WHERE nspname = 'takeback') k
    WHERE relkind IN ('r', 'p', 'f') AND relpersistence <> 't'
        AND nspname = ANY (SELECT unnest(schemas) FROM takeback.guard)
    ORDER BY 2
    $$;

-- The table that captured rows belong to now: the same, or the one that has its place, if it has the same columns.
CREATE FUNCTION takeback.resolved(relation oid, schema text, name text, wanted text) RETURNS oid LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT oid FROM pg_class
    WHERE (oid = relation OR oid = to_regclass(format('%I.%I', schema, name))) AND takeback.shape(oid) = wanted
    ORDER BY oid = relation DESC LIMIT 1
    $$;
