"""Constraints that can be deferred are checked by triggers, which are still in an undo: we look ourselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from takeback.resources.postgres.link import rows

if TYPE_CHECKING:
    from takeback.resources.postgres.inverse import Link, Table


def doubled(link: Link, table: Table) -> Iterator[tuple[int, str]]:
    """Rows put back that another row excludes: by a unique value, or by an operator of an exclusion constraint."""
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
        yield from ((n, "another row has its place, by a unique value") for (n,) in found)


def _is_put_back(table: Table) -> str:
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
