-- Tables that an action makes, alters or drops. Only a superuser may have these watched.

-- Whether this is our own doing: guarding a table alters it. An action does not know the word.
CREATE FUNCTION takeback.is_busy() RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$ SELECT EXISTS (SELECT FROM takeback.secret WHERE word = current_setting('takeback.busy', true)) $$;

-- Keep a table aside: how it can be made again, and its rows.
CREATE FUNCTION takeback.keep(target oid) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
    DECLARE
        number bigint := nextval('takeback.statement_id_seq');
        root oid := takeback.root(target);
        counted bigint := 0;
    BEGIN
        IF (SELECT relkind FROM pg_class WHERE oid = target) = 'r' THEN
            EXECUTE format('INSERT INTO takeback.line SELECT %s, false, %s FROM ONLY %s o',
                number, takeback.written(target, 'o'), takeback.quoted(target));
            GET DIAGNOSTICS counted = ROW_COUNT;
        END IF;
        INSERT INTO takeback.statement (id, action, op, relation, schema, name, shape, lines, detail)
        OVERRIDING SYSTEM VALUE
        SELECT number, takeback.action(), 'kept', root, nspname, relname, takeback.shape(root), counted,
            jsonb_build_object('table', target::bigint, 'named', takeback.quoted(target), 'how', takeback.definition(target))
        FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE c.oid = root;
    END
    $$;

-- Whether a command names something: rather too often than not.
CREATE FUNCTION takeback.names(said text, name name) RETURNS boolean LANGUAGE sql IMMUTABLE
    SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT CASE WHEN name ~ '^\w+$' THEN said ~ ('\m' || lower(name) || '\M') ELSE position(lower(name) IN said) > 0 END
    $$;

CREATE FUNCTION takeback.before_ddl() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, YMD' SET intervalstyle = postgres SET timezone = 'UTC'
    SET bytea_output = hex SET extra_float_digits = 1 SET lc_monetary = 'C' SET xmloption = content SET row_security = off
    AS $$
    DECLARE
        said text := lower(current_query());
        everything boolean := tg_tag = 'DROP OWNED';
    BEGIN
        IF takeback.action() = '' OR takeback.is_busy() THEN
            RETURN;
        END IF;
        -- What the command does not name is looked at once more when it has gone.
        PERFORM takeback.keep(t.target)
        FROM takeback.tables() t
            JOIN pg_class c ON c.oid = t.target
            JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE t.why = '' AND (
            everything
            OR takeback.names(said, c.relname)
            OR EXISTS (
                SELECT FROM pg_partition_ancestors(c.oid) a JOIN pg_class r ON r.oid = a
                WHERE c.relispartition AND tg_tag LIKE 'DROP%' AND takeback.names(said, r.relname)
            )
            OR (tg_tag = 'DROP SCHEMA' AND takeback.names(said, nspname))
        )
        ORDER BY c.relispartition, t.target;
    END
    $$;

CREATE FUNCTION takeback.dropped() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    DECLARE
        gone record;
        kept bigint;
    BEGIN
        IF takeback.is_busy() THEN
            RETURN;
        END IF;
        FOR gone IN
            SELECT * FROM pg_event_trigger_dropped_objects()
            WHERE CASE object_type WHEN 'schema' THEN object_name ELSE schema_name END
                = ANY (SELECT unnest(schemas) FROM takeback.guard)
        LOOP
            IF gone.object_type = 'table' THEN
                PERFORM takeback.forget(gone.objid);
            END IF;
            CONTINUE WHEN takeback.action() = '';
            IF gone.object_type IN ('table', 'table column') THEN
                SELECT id INTO kept FROM takeback.statement
                WHERE xid = txid_current() AND op IN ('kept', 'drop') AND (detail ->> 'table')::bigint = gone.objid;
                IF kept IS NULL THEN
                    RAISE EXCEPTION 'takeback could not keep % aside, so it is not dropped', gone.object_identity
                        USING HINT = 'Name the table in a DROP or ALTER statement of its own.';
                END IF;
                UPDATE takeback.statement
                SET op = 'drop', detail = detail || jsonb_build_object('did', 'DROP TABLE ' || gone.object_identity)
                WHERE id = kept AND gone.object_type = 'table';
            ELSIF gone.original AND gone.object_type = 'trigger' AND gone.address_names[3] LIKE 'takeback\_%' THEN
                RAISE EXCEPTION 'takeback guards %, and an action may not change that', gone.address_names[2]
                    USING HINT = '`takeback guard ADDRESS --remove`, outside any action.';
            -- What went along and is no part of a table is not made again with it.
            ELSIF gone.original OR gone.object_type IN ('materialized view', 'function', 'procedure', 'aggregate', 'domain') THEN
                INSERT INTO takeback.statement (action, op, relation, schema, name, shape, detail)
                VALUES (takeback.action(), 'other', 0, coalesce(gone.schema_name, ''), coalesce(gone.object_name, ''), '',
                    jsonb_build_object('did', format('DROP %s %s', upper(gone.object_type), gone.object_identity)));
            END IF;
        END LOOP;
    END
    $$;

CREATE FUNCTION takeback.after_ddl() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, YMD' SET intervalstyle = postgres SET timezone = 'UTC'
    SET bytea_output = hex SET extra_float_digits = 1 SET lc_monetary = 'C' SET xmloption = content SET row_security = off
    AS $$
    DECLARE
        made record;
        guarded text[] := (SELECT schemas FROM takeback.guard);
    BEGIN
        IF takeback.is_busy() THEN
            RETURN;
        END IF;
        FOR made IN
            SELECT DISTINCT ON (objid) * FROM pg_event_trigger_ddl_commands()
            WHERE schema_name = ANY (guarded) AND object_type = 'table'
        LOOP
            -- With its partitions: what is true of the whole is written into their capture, too.
            PERFORM CASE WHEN t.why = '' THEN takeback.watch(t.target) ELSE takeback.unwatch(t.target) END
            FROM takeback.tables() t
            WHERE t.target = made.objid OR takeback.root(t.target) = takeback.root(made.objid);
            IF takeback.action() <> '' AND tg_tag IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO') THEN
                PERFORM takeback.note_made(made.objid);
            END IF;
        END LOOP;
        IF takeback.action() = '' THEN
            RETURN;
        END IF;
        -- What was kept and is still there as it was need not be kept.
        WITH same AS (
            DELETE FROM takeback.statement
            WHERE xid = txid_current() AND op = 'kept'
                AND detail -> 'how' = takeback.definition((detail ->> 'table')::bigint::oid)
            RETURNING id
        )
        DELETE FROM takeback.line USING same WHERE statement = same.id;
        UPDATE takeback.statement SET op = 'alter', detail = detail || jsonb_build_object('did', tg_tag || ' ' || (detail ->> 'named'))
        WHERE xid = txid_current() AND op = 'kept';
        IF tg_tag NOT LIKE '%TABLE%' AND tg_tag NOT LIKE 'DROP%' AND tg_tag <> 'SELECT INTO' THEN
            INSERT INTO takeback.statement (action, op, relation, schema, name, shape, detail)
            SELECT takeback.action(), 'other', 0, schema_name, '', '',
                jsonb_build_object('did', format('%s %s', command_tag, object_identity))
            FROM pg_event_trigger_ddl_commands() WHERE schema_name = ANY (guarded);
        END IF;
    END
    $$;

-- A table that an action made, with the rows that it was made with.
CREATE FUNCTION takeback.note_made(target oid) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
    DECLARE
        number bigint := nextval('takeback.statement_id_seq');
        counted bigint := 0;
    BEGIN
        IF (SELECT relkind FROM pg_class WHERE oid = target) = 'r' THEN
            EXECUTE format('INSERT INTO takeback.line SELECT %s, true, %s FROM ONLY %s o',
                number, takeback.written(target, 'o'), takeback.quoted(target));
            GET DIAGNOSTICS counted = ROW_COUNT;
        END IF;
        INSERT INTO takeback.statement (id, action, op, relation, schema, name, shape, lines, detail)
        OVERRIDING SYSTEM VALUE
        SELECT number, takeback.action(), 'create', r.oid, nspname, r.relname, takeback.shape(r.oid), counted,
            jsonb_build_object('table', target::bigint, 'named', takeback.quoted(target), 'did', 'CREATE TABLE ' || takeback.quoted(target))
        FROM pg_class r JOIN pg_namespace n ON n.oid = relnamespace WHERE r.oid = takeback.root(target);
    END
    $$;

CREATE EVENT TRIGGER takeback_before ON ddl_command_start
    WHEN TAG IN ('DROP TABLE', 'DROP SCHEMA', 'DROP OWNED', 'DROP EXTENSION', 'DROP TYPE', 'ALTER TABLE')
    EXECUTE FUNCTION takeback.before_ddl();
CREATE EVENT TRIGGER takeback_dropped ON sql_drop EXECUTE FUNCTION takeback.dropped();
CREATE EVENT TRIGGER takeback_after ON ddl_command_end EXECUTE FUNCTION takeback.after_ddl();
ALTER EVENT TRIGGER takeback_before ENABLE ALWAYS;
ALTER EVENT TRIGGER takeback_dropped ENABLE ALWAYS;
ALTER EVENT TRIGGER takeback_after ENABLE ALWAYS;
