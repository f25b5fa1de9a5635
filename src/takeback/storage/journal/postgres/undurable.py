"""Events that are committed but not yet durable, after the server was gone.

A server that crashed forgets the last moments of what was not durable, while this process, which it told that it was
written, lives on and has acted on it. So they are written again, each in its place, if nobody else has taken it.
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
    """See that all of these are there, durable; inside a transaction that holds the end of the journal."""
    for sealed in written:
        found = statements.get(db, workspace, sealed.rows[0][0])
        if found and found[4] == sealed.rows[0][4]:
            continue
        if not statements.write(db, workspace, sealed.seen, sealed.rows, sealed.parts, durable=True):
            named = events(sealed.rows[0][0], written[-1].rows[-1][0])
            raise CorruptionError(
                f"{named} were lost when the server crashed, and others have written there since. "
                "Nothing was recorded",
                hint="start again: what this process knows is not what the journal says",
            )
        outbox_table.project(db, workspace, sealed.records)
    statements.touch(db, workspace)
