"""Triggers that run even when others are disabled: an undo disables them too.

Also the check for unique values that such a constraint defers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from takeback.resources.postgres.connection import rows, run

if TYPE_CHECKING:
    from takeback.resources.postgres.inverse import Link, PostgresTable


_BUSY = "SELECT set_config('takeback.busy', (SELECT word FROM takeback.secret), true)"
_NOT_BUSY = "SELECT set_config('takeback.busy', '', true)"


@contextmanager
def still(db: Link, tables: Sequence[PostgresTable]) -> Iterator[None]:
    """Disable the triggers of these tables that are enabled ALWAYS or as REPLICA, and enable them again.

    In the transaction of the undo: if it fails in between, they are as they were.
    """
    oids = [table.oid for table in tables]
    found = rows(db, _LOUD, [oids, oids])
    _alter(db, [f"ALTER TABLE {table} DISABLE TRIGGER {name}" for table, name, _ in found])
    yield
    _alter(db, [f"ALTER TABLE {table} ENABLE {mode} TRIGGER {name}" for table, name, mode in found])


def _alter(db: Link, statements: Sequence[str]) -> None:
    if statements:
        run(db, _BUSY)
        for statement in statements:
            run(db, statement)
        run(db, _NOT_BUSY)


_LOUD = """
    SELECT takeback.quoted(tgrelid), quote_ident(tgname), CASE tgenabled WHEN 'A' THEN 'ALWAYS' ELSE 'REPLICA' END
    FROM pg_trigger
    WHERE NOT tgisinternal AND tgenabled IN ('A', 'R') AND tgname NOT LIKE 'takeback\\_%%'
        AND tgrelid IN (SELECT o FROM unnest(%s::oid[]) o
            UNION SELECT relid FROM unnest(%s::oid[]) o, pg_partition_tree(o))
    ORDER BY 1, 2
    """


def doubled(link: Link, table: PostgresTable) -> Iterator[tuple[int, str]]:
    """Yield rows put back that conflict with another row: by a unique value, or by an exclusion constraint."""
    for place, expressions, operators, excludes, nulls_match in rows(
        link, _DEFERRABLE, [table.oid, table.oid]
    ):
        values = ", ".join(f"{x} AS x{n}" for n, x in enumerate(expressions))
        pairs = [f"a.x{n} {op} b.x{n}" for n, op in enumerate(operators)]
        if nulls_match:
            pairs = [f"({pair} OR a.x{n} IS NULL AND b.x{n} IS NULL)" for n, pair in enumerate(pairs)]
        every = f"SELECT t.tableoid AS place, t.ctid AS spot, {values} FROM {place} t{excludes}"
        found = rows(
            link,
            f"SELECT DISTINCT w.n FROM ({every}) a JOIN {place} t ON t.tableoid = a.place AND t.ctid = a.spot "
            f"JOIN {table.work} w ON {_is_put_back(table)} "
            f"JOIN ({every}) b ON {' AND '.join(pairs)} AND (a.place, a.spot) <> (b.place, b.spot)",
        )
        yield from ((n, "another row has the same unique value") for (n,) in found)


def _is_put_back(table: PostgresTable) -> str:
    if table.keys:
        return f"{table.on('t', 'w')} AND w.state = 'apply' AND w.before IS NOT NULL"
    return f"{table.written} = w.data AND w.state = 'apply' AND w.more < 0"


_DEFERRABLE = """
    SELECT takeback.quoted(indrelid),
        (SELECT array_agg(pg_get_indexdef(indexrelid, n, false) ORDER BY n) FROM generate_series(1, indnkeyatts) n),
        (SELECT array_agg(format('OPERATOR(%%I.%%s)', nspname, oprname) ORDER BY n)
            FROM generate_series(1, indnkeyatts) n
                JOIN pg_opclass c ON c.oid = indclass[n - 1]
                JOIN pg_operator o ON o.oid = coalesce(
                    (SELECT conexclop[n] FROM pg_constraint WHERE conindid = indexrelid AND contype = 'x'),
                    (SELECT amopopr FROM pg_amop WHERE amopfamily = opcfamily AND amopstrategy = 3
                        AND amoplefttype = opcintype AND amoprighttype = opcintype))
                JOIN pg_namespace s ON s.oid = oprnamespace),
        coalesce(' WHERE ' || pg_get_expr(indpred, indrelid), ''),
        coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false)
    FROM pg_index i
    WHERE (indisunique OR indisexclusion) AND NOT indimmediate
        AND indrelid IN (SELECT %s::oid UNION SELECT relid::oid FROM pg_partition_tree(%s::oid::regclass))
    """
