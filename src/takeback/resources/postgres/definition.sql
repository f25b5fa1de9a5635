-- How a table can be made again: statements in three lists. `make` before its rows are put back, `finish` after, and
-- `values` for where its sequences stood, which is no part of what it is.

CREATE FUNCTION takeback.sequence_options(target oid) RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT format('INCREMENT %s MINVALUE %s MAXVALUE %s START %s CACHE %s%s',
        seqincrement, seqmin, seqmax, seqstart, seqcache, CASE WHEN seqcycle THEN ' CYCLE' ELSE '' END)
    FROM pg_sequence WHERE seqrelid = target
    $$;

-- The sequences of a table's columns: of serial ones (deptype a) and of identities (deptype i).
CREATE FUNCTION takeback.sequences(target oid, OUT sequence oid, OUT "column" name, OUT kind "char")
    RETURNS SETOF record LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT d.objid, a.attname, d.deptype
    FROM pg_depend d
        JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
        JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
    WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = target
        AND d.deptype IN ('a', 'i')
    ORDER BY a.attnum
    $$;

CREATE FUNCTION takeback.columns(target oid) RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT coalesce(string_agg(
        format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod))
        || CASE WHEN a.attcollation <> t.typcollation
            THEN (SELECT format(' COLLATE %I.%I', nspname, collname) FROM pg_collation c
                JOIN pg_namespace n ON n.oid = collnamespace WHERE c.oid = a.attcollation)
            ELSE '' END
        || CASE
            WHEN a.attgenerated <> '' THEN format(' GENERATED ALWAYS AS (%s) %s', pg_get_expr(adbin, adrelid),
                CASE a.attgenerated WHEN 's' THEN 'STORED' ELSE 'VIRTUAL' END)
            WHEN a.attidentity <> '' THEN (
                SELECT format(' GENERATED %s AS IDENTITY (SEQUENCE NAME %s %s)',
                    CASE a.attidentity WHEN 'a' THEN 'ALWAYS' ELSE 'BY DEFAULT' END,
                    takeback.quoted(s.sequence), takeback.sequence_options(s.sequence))
                FROM takeback.sequences(target) s WHERE s."column" = a.attname AND s.kind = 'i')
            WHEN a.atthasdef THEN format(' DEFAULT %s', pg_get_expr(adbin, adrelid))
            ELSE '' END
        || CASE WHEN a.attnotnull THEN coalesce((
                SELECT format(' CONSTRAINT %I', conname) FROM pg_constraint
                WHERE conrelid = target AND contype = 'n' AND conkey = ARRAY[a.attnum]), '') || ' NOT NULL'
            ELSE '' END,
        ', ' ORDER BY a.attnum), '')
    FROM pg_attribute a
        JOIN pg_type t ON t.oid = a.atttypid
        LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = target AND a.attnum > 0 AND NOT a.attisdropped
    $$;

-- The indexes of a table that are not made by its constraints.
CREATE FUNCTION takeback.indexes(target oid) RETURNS SETOF text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT pg_get_indexdef(indexrelid) FROM pg_index
    WHERE indrelid = target
        AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p', 'u', 'x'))
    $$;

CREATE FUNCTION takeback.how_to_make(target oid) RETURNS SETOF text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT format('CREATE SEQUENCE %s AS %s %s', takeback.quoted(sequence), format_type(seqtypid, NULL),
        takeback.sequence_options(sequence))
    FROM takeback.sequences(target) JOIN pg_sequence ON seqrelid = sequence WHERE kind = 'a'
    UNION ALL
    SELECT format('CREATE %sTABLE %s (%s)%s%s',
        CASE relpersistence WHEN 'u' THEN 'UNLOGGED ' ELSE '' END, takeback.quoted(oid), takeback.columns(oid),
        CASE relkind WHEN 'p' THEN ' PARTITION BY ' || pg_get_partkeydef(oid) ELSE '' END,
        CASE WHEN reloptions IS NULL THEN '' ELSE format(' WITH (%s)', array_to_string(reloptions, ', ')) END)
    FROM pg_class WHERE oid = target
    UNION ALL
    SELECT format('ALTER SEQUENCE %s OWNED BY %s.%I', takeback.quoted(sequence), takeback.quoted(target), "column")
    FROM takeback.sequences(target) WHERE kind = 'a'
    UNION ALL
    (SELECT format('ALTER TABLE %s ADD CONSTRAINT %I %s', takeback.quoted(target), conname, pg_get_constraintdef(oid))
    FROM pg_constraint WHERE conrelid = target AND contype IN ('p', 'u', 'x', 'c') AND (conislocal OR contype <> 'c')
    ORDER BY array_position(ARRAY['p', 'u', 'x', 'c'], contype::text), conname)
    UNION ALL
    -- A partition brings its own indexes along, else it is given others.
    (SELECT takeback.indexes(oid) FROM pg_class WHERE oid = target AND relispartition ORDER BY 1)
    UNION ALL
    SELECT format('ALTER TABLE %s ATTACH PARTITION %s %s', takeback.quoted(inhparent), takeback.quoted(target),
        pg_get_expr(relpartbound, oid))
    FROM pg_class JOIN pg_inherits ON inhrelid = oid WHERE oid = target AND relispartition
    $$;

-- The views that stand on a table, and on those, in the order in which they can be made.
CREATE FUNCTION takeback.views(target oid, OUT view oid, OUT place bigint) RETURNS SETOF record LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
    AS $$
    WITH RECURSIVE view(oid, depth) AS (
        SELECT target, 0
        UNION ALL
        SELECT DISTINCT r.ev_class, depth + 1
        FROM view v
            JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = v.oid AND d.classid = 'pg_rewrite'::regclass
            JOIN pg_rewrite r ON r.oid = d.objid AND r.ev_class <> v.oid
        WHERE depth < 50
    )
    SELECT v.oid, row_number() OVER (ORDER BY max(depth), v.oid)
    FROM view v JOIN pg_class c ON c.oid = v.oid WHERE c.relkind = 'v' GROUP BY v.oid
    $$;

-- What refers to a table, and what stands on it.
CREATE FUNCTION takeback.how_to_connect(target oid) RETURNS SETOF text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    (SELECT format('ALTER TABLE %s ADD CONSTRAINT %I %s', takeback.quoted(conrelid), conname, pg_get_constraintdef(oid))
    FROM pg_constraint
    WHERE contype = 'f' AND conparentid = 0 AND (conrelid = target OR confrelid = target)
    ORDER BY conrelid, conname)
    UNION ALL
    (SELECT format('CREATE VIEW %s%s AS %s', takeback.quoted(view),
        ' WITH (' || array_to_string(reloptions, ', ') || ')', pg_get_viewdef(view))
    FROM takeback.views(target) JOIN pg_class ON oid = view ORDER BY place)
    UNION ALL
    (SELECT format('COMMENT ON VIEW %s IS %L', takeback.quoted(view), description)
    FROM takeback.views(target) JOIN pg_description ON objoid = view AND classoid = 'pg_class'::regclass AND objsubid = 0
    ORDER BY 1)
    UNION ALL
    (SELECT format('GRANT %s ON %s TO %s%s', privilege_type, takeback.quoted(view),
        CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END,
        CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
    FROM takeback.views(target) JOIN pg_class ON oid = view, aclexplode(relacl) WHERE grantee <> relowner ORDER BY 1)
    UNION ALL
    (SELECT format('ALTER VIEW %s OWNER TO %I', takeback.quoted(view), pg_get_userbyid(relowner))
    FROM takeback.views(target) JOIN pg_class ON oid = view ORDER BY 1)
    $$;

-- The publications that a table was put into by name. Filters are known since PostgreSQL 15: asked for only there.
CREATE FUNCTION takeback.publications(target oid) RETURNS SETOF text LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    BEGIN
        IF current_setting('server_version_num')::int < 150000 THEN
            RETURN QUERY SELECT format('ALTER PUBLICATION %I ADD TABLE ONLY %s', pubname, takeback.quoted(target))
            FROM pg_publication_rel JOIN pg_publication p ON p.oid = prpubid WHERE prrelid = target ORDER BY 1;
        ELSE
            RETURN QUERY SELECT format('ALTER PUBLICATION %I ADD TABLE ONLY %s%s%s', pubname, takeback.quoted(target),
                (SELECT ' (' || string_agg(quote_ident(attname), ', ' ORDER BY attnum) || ')' FROM pg_attribute
                    WHERE attrelid = target AND attnum = ANY (prattrs)),
                ' WHERE (' || pg_get_expr(prqual, prrelid) || ')')
            FROM pg_publication_rel JOIN pg_publication p ON p.oid = prpubid WHERE prrelid = target ORDER BY 1;
        END IF;
    END
    $$;

-- What is set for a table and its columns that is not told where they are made.
CREATE FUNCTION takeback.how_to_set(target oid) RETURNS SETOF text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    (SELECT format('ALTER TABLE ONLY %s ALTER COLUMN %I %s', takeback.quoted(target), attname, what)
    FROM pg_attribute a JOIN pg_type t ON t.oid = atttypid, LATERAL (VALUES
        (CASE WHEN attstattarget >= 0 THEN format('SET STATISTICS %s', attstattarget) END),
        (CASE WHEN attstorage <> typstorage THEN 'SET STORAGE ' || CASE attstorage
            WHEN 'p' THEN 'PLAIN' WHEN 'e' THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN' ELSE 'EXTENDED' END END),
        (CASE to_jsonb(a) ->> 'attcompression' WHEN 'p' THEN 'SET COMPRESSION pglz' WHEN 'l' THEN 'SET COMPRESSION lz4' END),
        ('SET (' || array_to_string(attoptions, ', ') || ')')) v(what)
    WHERE attrelid = target AND attnum > 0 AND NOT attisdropped AND what IS NOT NULL ORDER BY attnum, what)
    UNION ALL
    (SELECT format('GRANT %s (%I) ON %s TO %s%s', privilege_type, attname, takeback.quoted(target),
        CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END,
        CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
    FROM pg_attribute, aclexplode(attacl) WHERE attrelid = target AND attnum > 0 AND NOT attisdropped ORDER BY 1)
    UNION ALL
    SELECT format('ALTER TABLE ONLY %s REPLICA IDENTITY %s', takeback.quoted(target), CASE relreplident
        WHEN 'f' THEN 'FULL' WHEN 'n' THEN 'NOTHING' ELSE (
            SELECT format('USING INDEX %I', relname) FROM pg_index JOIN pg_class x ON x.oid = indexrelid
            WHERE indrelid = target AND indisreplident) END)
    FROM pg_class WHERE oid = target AND relreplident <> 'd'
    UNION ALL
    (SELECT format('ALTER TABLE %s CLUSTER ON %I', takeback.quoted(target), relname)
    FROM pg_index JOIN pg_class x ON x.oid = indexrelid WHERE indrelid = target AND indisclustered)
    UNION ALL
    (SELECT rtrim(pg_get_ruledef(oid), ';') FROM pg_rewrite WHERE ev_class = target AND rulename <> '_RETURN' ORDER BY rulename)
    UNION ALL
    (SELECT format('ALTER TABLE %s %s RULE %I', takeback.quoted(target),
        CASE ev_enabled WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE ALWAYS' END, rulename)
    FROM pg_rewrite WHERE ev_class = target AND ev_enabled <> 'O' AND rulename <> '_RETURN' ORDER BY rulename)
    UNION ALL
    SELECT takeback.publications(target)
    $$;

CREATE FUNCTION takeback.how_to_finish(target oid) RETURNS SETOF text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    (SELECT takeback.indexes(oid) FROM pg_class WHERE oid = target AND NOT relispartition ORDER BY 1)
    UNION ALL
    (SELECT format('ALTER INDEX %s ATTACH PARTITION %s', takeback.quoted(inhparent), takeback.quoted(inhrelid))
    FROM pg_index JOIN pg_inherits ON inhrelid = indexrelid
    WHERE indrelid = target AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid) ORDER BY 1)
    UNION ALL
    (SELECT pg_get_statisticsobjdef(oid) FROM pg_statistic_ext WHERE stxrelid = target ORDER BY 1)
    UNION ALL
    SELECT takeback.how_to_connect(target)
    UNION ALL
    SELECT takeback.how_to_set(target)
    UNION ALL
    (SELECT pg_get_triggerdef(oid) FROM pg_trigger
    WHERE tgrelid = target AND NOT tgisinternal AND tgparentid = 0 AND tgname NOT LIKE 'takeback\_%' ORDER BY tgname)
    UNION ALL
    (SELECT format('ALTER TABLE %s %s TRIGGER %I', takeback.quoted(target),
        CASE tgenabled WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE ALWAYS' END, tgname)
    FROM pg_trigger
    WHERE tgrelid = target AND NOT tgisinternal AND tgenabled <> 'O' AND tgname NOT LIKE 'takeback\_%' ORDER BY tgname)
    UNION ALL
    SELECT format('ALTER TABLE %s %s ROW LEVEL SECURITY', takeback.quoted(target), what)
    FROM pg_class, LATERAL (VALUES (relrowsecurity, 'ENABLE'), (relforcerowsecurity, 'FORCE')) v(on_, what)
    WHERE oid = target AND on_
    UNION ALL
    (SELECT format('CREATE POLICY %I ON %s AS %s FOR %s TO %s%s%s', policyname, takeback.quoted(target), permissive, cmd,
        (SELECT string_agg(CASE r WHEN 'public' THEN 'public' ELSE quote_ident(r) END, ', ') FROM unnest(roles) r),
        coalesce(' USING (' || qual || ')', ''), coalesce(' WITH CHECK (' || with_check || ')', ''))
    FROM pg_policies WHERE format('%I.%I', schemaname, tablename) = takeback.quoted(target) ORDER BY policyname)
    UNION ALL
    (SELECT format('COMMENT ON %s IS %L', CASE objsubid WHEN 0 THEN 'TABLE ' || takeback.quoted(target)
        ELSE 'COLUMN ' || takeback.quoted(target) || '.' || quote_ident(attname) END, description)
    FROM pg_description LEFT JOIN pg_attribute ON attrelid = target AND attnum = objsubid AND objsubid > 0
    WHERE objoid = target AND classoid = 'pg_class'::regclass ORDER BY objsubid)
    UNION ALL
    (SELECT format('GRANT %s ON %s TO %s%s', privilege_type, takeback.quoted(target),
        CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END,
        CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
    FROM pg_class, aclexplode(relacl) WHERE oid = target AND grantee <> relowner ORDER BY 1)
    UNION ALL
    SELECT format('ALTER TABLE %s OWNER TO %I', takeback.quoted(oid), pg_get_userbyid(relowner))
    FROM pg_class WHERE oid = target
    $$;

CREATE FUNCTION takeback.definition(target oid) RETURNS jsonb LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT jsonb_build_object(
        'make', (SELECT coalesce(jsonb_agg(x), '[]') FROM takeback.how_to_make(target) x),
        'finish', (SELECT coalesce(jsonb_agg(x), '[]') FROM takeback.how_to_finish(target) x),
        'values', (SELECT coalesce(jsonb_agg(format('SELECT pg_catalog.setval(%L, %s)', takeback.quoted(sequence),
            pg_sequence_last_value(sequence))), '[]') FROM takeback.sequences(target)
            WHERE pg_sequence_last_value(sequence) IS NOT NULL))
    $$;
