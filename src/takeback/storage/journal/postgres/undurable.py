"""Restoring events that were committed but not durable when the server crashed.

A server that crashed may have lost them, while this process, which got an answer, has acted on them. So they are
written again, each in its old place, unless another process has written there since.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from takeback.errors import CorruptionError
from takeback.storage.journal.group_commit import Sealed
from takeback.storage.journal.postgres import outbox_table, statements
from takeback.storage.journal.verify import events

if TYPE_CHECKING:
    import psycopg

    Db = psycopg.Connection[tuple[Any, ...]]


def restore(db: Db, workspace: int, written: Sequence[Sealed]) -> None:
    """Make sure that all of these exist and are durable; inside a transaction that locks the end of the journal."""
    for sealed in written:
        found = statements.get(db, workspace, sealed.rows[0][0])
        if found and found[4] == sealed.rows[0][4]:
            continue
        if not statements.write(db, workspace, sealed.seen, sealed.rows, sealed.parts, durable=True):
            named = events(sealed.rows[0][0], written[-1].rows[-1][0])
            raise CorruptionError(
                f"{named} were lost when the server crashed, and another process has written in their place. "
                "Nothing was recorded",
                hint="start this process again: what it remembers differs from the journal",
            )
        outbox_table.project(db, workspace, sealed.records)
    statements.touch(db, workspace)
