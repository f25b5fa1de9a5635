"""Triggers that run even where others are still: an undo keeps them still, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from takeback.resources.postgres.link import rows, run

if TYPE_CHECKING:
    from takeback.resources.postgres.inverse import Link, Table

_BUSY = "SELECT set_config('takeback.busy', (SELECT word FROM takeback.secret), true)"
_NOT_BUSY = "SELECT set_config('takeback.busy', '', true)"


@contextmanager
def still(db: Link, tables: Sequence[Table]) -> Iterator[None]:
    """Disable the triggers of these tables that are enabled ALWAYS or as REPLICA, and enable them again.

    It is the same transaction as that of the undo: if it ends in between, they are as they were.
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
