"""The queries of an inverse: what each row was and is, and how one becomes the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from takeback.resources.postgres.inverse import PostgresTable


def key(table: PostgresTable, alias: str) -> str:
    """Return the expression for a key as a person would write it."""
    if not table.keys:
        return f"left({alias}.data, 60)"
    return f"concat_ws(', ', {', '.join(f'{alias}.k{n}' for n in range(len(table.keys)))})"


def gather(table: PostgresTable) -> str:
    return _gather_keyed(table) if table.keys else _gather_whole(table)


def _ids(table: PostgresTable) -> str:
    """Return the ids as a literal. Not as a parameter: a name with a percent sign would then be taken for one."""
    return "'{" + ", ".join(map(str, table.statements)) + "}'::bigint[]"


def _gather_keyed(table: PostgresTable) -> str:
    """Return the query for the first and last state of each row.

    Within a transaction no other can write the row, so its step is what was removed and not added, and the other
    way round, in whatever order triggers and statements recorded it. Changes that cancel each other are not a step.
    The steps of several transactions form a chain.
    """
    own = [f"k{n}" for n in range(len(table.keys))]
    keys = ", ".join(own)
    parts = ", ".join(f"(r).{key} AS k{n}" for n, key in enumerate(table.keys))
    return f"""
        CREATE TEMP TABLE {table.work.removeprefix("pg_temp.")} ON COMMIT DROP AS
        WITH line AS MATERIALIZED (
            SELECT s.id, s.xid, s.action, l.added, l.data, l.data::{table.quoted} AS r
            FROM takeback.statement s JOIN takeback.line l ON l.statement = s.id
            WHERE s.id = ANY({_ids(table)})
        ),
        part AS (
            SELECT {keys}, xid, data, max(id) AS id, max(action) AS action,
                sum(CASE WHEN added THEN 1 ELSE -1 END) AS more
            FROM (SELECT id, xid, action, added, data, {parts} FROM line) keyed GROUP BY {keys}, xid, data
        ),
        step AS (
            SELECT {keys}, max(id) AS id, max(action) AS action,
                max(data) FILTER (WHERE more < 0) AS before, max(data) FILTER (WHERE more > 0) AS after,
                max(abs(more)) > 1 OR count(*) FILTER (WHERE more < 0) > 1 OR count(*) FILTER (WHERE more > 0) > 1
                    AS torn
            FROM part GROUP BY {keys}, xid HAVING bool_or(more <> 0)
        ),
        chain AS (
            SELECT *, lag(after) OVER w AS last, row_number() OVER w AS place,
                count(*) OVER (PARTITION BY {keys}) AS length
            FROM step WINDOW w AS (PARTITION BY {keys} ORDER BY id)
        ),
        net AS (
            SELECT {keys},
                max(before) FILTER (WHERE place = 1) AS before,
                max(after) FILTER (WHERE place = length) AS after,
                max(action) FILTER (WHERE place = length) AS action,
                bool_or(torn OR (place > 1 AND before IS DISTINCT FROM last)) AS gap
            FROM chain GROUP BY {keys}
        )
        SELECT *,
            CASE
                WHEN NOT gap AND now IS NOT DISTINCT FROM before THEN 'already'
                WHEN NOT gap AND now IS NOT DISTINCT FROM after THEN 'apply'
                ELSE 'conflict'
            END AS state
        FROM (
            SELECT row_number() OVER () AS n, w.*, {table.now} AS now
            FROM net w LEFT JOIN {table.quoted} t ON {table.on("t", "w")}
        ) compared
        """


def _gather_whole(table: PostgresTable) -> str:
    """Return the same for a table without a key.

    A row is identified by all its values, and equal rows only by their number.
    """
    return f"""
        CREATE TEMP TABLE {table.work.removeprefix("pg_temp.")} ON COMMIT DROP AS
        WITH net AS (
            SELECT l.data, max(s.action) AS action, sum(CASE WHEN l.added THEN 1 ELSE -1 END) AS more
            FROM takeback.statement s JOIN takeback.line l ON l.statement = s.id
            WHERE s.id = ANY({_ids(table)})
            GROUP BY l.data
        ),
        there AS (
            SELECT {table.written} AS data, count(*) AS had FROM {table.quoted} t
            WHERE {table.written} IN (SELECT data FROM net) GROUP BY 1
        )
        SELECT row_number() OVER () AS n, w.data, w.action, w.more, coalesce(had, 0) AS had, false AS gap,
            NULL::text AS now,
            CASE WHEN more = 0 THEN 'already' WHEN coalesce(had, 0) < more THEN 'conflict' ELSE 'apply' END AS state
        FROM net w LEFT JOIN there USING (data)
        """


def count(table: PostgresTable) -> str:
    """Return the query for how many rows of each action are taken back: those it added, changed and removed."""
    if table.keys:
        kinds = (
            "before IS NULL",
            "before IS NOT NULL AND now IS NOT NULL",
            "before IS NOT NULL AND now IS NULL",
        )
        counts = ", ".join(f"count(*) FILTER (WHERE {kind})" for kind in kinds)
    else:
        counts = "sum(greatest(more, 0))::bigint, 0, sum(greatest(-more, 0))::bigint"
    return f"SELECT action, {counts} FROM {table.work} WHERE state = 'apply' GROUP BY 1"


def remove(table: PostgresTable) -> str:
    if table.keys:
        return (
            f"DELETE FROM {table.quoted} t USING {table.work} w "
            f"WHERE {table.on('t', 'w')} AND w.state = 'apply' AND w.now IS NOT NULL"
        )
    return f"""
        DELETE FROM {table.quoted} t USING (
            SELECT t.tableoid AS place, t.ctid AS spot, w.more, row_number() OVER (PARTITION BY w.n) AS number
            FROM {table.quoted} t JOIN {table.work} w ON {table.written} = w.data
            WHERE w.state = 'apply' AND w.more > 0
        ) chosen
        WHERE t.tableoid = chosen.place AND t.ctid = chosen.spot AND chosen.number <= chosen.more
        """


def insert(table: PostgresTable) -> str:
    names = ", ".join(table.columns)
    values = ", ".join(f"(r).{name}" for name in table.columns)
    source = (
        f"SELECT before::{table.quoted} AS r FROM {table.work} WHERE state = 'apply' AND before IS NOT NULL OFFSET 0"
        if table.keys
        else f"SELECT data::{table.quoted} AS r FROM {table.work}, generate_series(1, -more) "
        "WHERE state = 'apply' AND more < 0 OFFSET 0"
    )
    passing = "" if table.plain_insert else "ON CONFLICT DO NOTHING"
    return f"INSERT INTO {table.quoted} ({names}) OVERRIDING SYSTEM VALUE SELECT {values} FROM ({source}) x {passing}"


def missing(table: PostgresTable) -> str:
    """Return the query for rows that are not what they should have become. This is also the verification."""
    if table.keys:
        return (
            f"SELECT w.n FROM {table.work} w LEFT JOIN {table.quoted} t ON {table.on('t', 'w')} "
            f"WHERE w.state = 'apply' AND {table.now} IS DISTINCT FROM w.before"
        )
    return f"""
        SELECT w.n FROM {table.work} w LEFT JOIN (
            SELECT {table.written} AS data, count(*) AS has FROM {table.quoted} t
            WHERE {table.written} IN (SELECT data FROM {table.work}) GROUP BY 1
        ) there USING (data)
        WHERE w.state = 'apply' AND coalesce(has, 0) <> had - more
        """
