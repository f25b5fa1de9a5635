"""Moving a journal in a PostgreSQL database to another store, or filling it from one.

The notice that shuts the journal is in the row that every append moves. So a process that connected earlier finds
out in the very statement that would write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from takeback.core.leases import Lease
from takeback.core.record import Record
from takeback.ports.journal import Head
from takeback.ports.relocation import QueueRow, Stored
from takeback.storage.journal.postgres import statements
from takeback.storage.journal.postgres.connection import Address
from takeback.storage.journal.postgres.session import PostgresSession
from takeback.storage.journal.relocation import StoredMoving, keep_anchor

if TYPE_CHECKING:
    import psycopg

    from takeback.storage.journal.postgres.journal import PostgresJournal

    Db = psycopg.Connection[tuple[Any, ...]]

_NOTICE = b"SELECT shut FROM takeback_store.workspaces WHERE id = %s"
_SHUT = b"UPDATE takeback_store.workspaces SET shut = %s WHERE id = %s"
_CLAIMED = b"SELECT count(*) FROM takeback_store.outbox WHERE workspace = %s AND state = 'claimed'"
_QUEUE = (
    b"SELECT id, fence, result FROM takeback_store.outbox WHERE workspace = %s AND id > %s"
    b" AND (fence > 0 OR result IS NOT NULL) ORDER BY id LIMIT %s"
)
_KNOWN = b"UPDATE takeback_store.outbox SET fence = %s, result = %s WHERE workspace = %s AND id = %s"
_FENCE = b"SELECT fence FROM takeback_store.workspaces WHERE id = %s"
# No folder holds the seat of what was taken in: the first one to append takes it.
_SKIP = b"UPDATE takeback_store.workspaces SET fence = greatest(fence, %s), seat = 0 WHERE id = %s"
_PARTS = (
    b"SELECT key, max(part) FROM takeback_store.events WHERE workspace = %s AND key = ANY(%s) GROUP BY key"
)
_IS_THERE = b"SELECT to_regclass('takeback_store.workspaces') IS NOT NULL"
_NAMED = b"SELECT count, digest FROM takeback_store.workspaces WHERE name = %s"


class PostgresMoving(StoredMoving["Db"]):
    """The notice in a workspace's row, and the rows taken in while it is there."""

    _journal: PostgresJournal

    def __init__(self, journal: PostgresJournal, session: PostgresSession) -> None:
        super().__init__(journal)
        self._session = session

    @property
    def _id(self) -> int:
        return self._session.id

    def _hold(self, work: Callable[[Db], None]) -> None:
        """Run `work` while the row is locked. It may run twice, with the same result."""

        def held(db: Db) -> None:
            try:
                statements.lock(db, self._id, also_shut=True)
                work(db)
                statements.commit(db)
            except BaseException:
                self._session.roll_back(db)
                raise

        self._session.ask(held)

    def _notice(self, db: Db) -> str:
        row = db.execute(_NOTICE, (self._id,)).fetchone()
        return str(row[0]) if row else ""

    def _set_notice(self, db: Db, notice: str) -> None:
        db.execute(_SHUT, (notice, self._id))

    def _claimed(self, db: Db) -> int:
        row = db.execute(_CLAIMED, (self._id,)).fetchone()
        return row[0] if row else 0

    def _leases(self, db: Db) -> list[Lease]:
        return self._journal.lease_table.leases(db)

    def _take_in(
        self,
        db: Db,
        fresh: Sequence[Stored],
        records: Sequence[Record],
        queue: Sequence[QueueRow],
        fence: int,
    ) -> None:
        if fresh:
            head = self._journal.events.head(db)
            rows = self._journal.packed(db, fresh, records)
            statements.take_in(db, self._id, head, rows, self._parts(db, fresh))
            self._journal.outbox_table.project(db, records)
        for row in queue:
            db.execute(_KNOWN, (row.fence, row.result, self._id, row.id))
        db.execute(_SKIP, (fence, self._id))

    def _queue(self, db: Db, after: int, limit: int) -> list[QueueRow]:
        return [QueueRow(*row) for row in db.execute(_QUEUE, (self._id, after, limit))]

    def _fence(self, db: Db) -> int:
        row = db.execute(_FENCE, (self._id,)).fetchone()
        return int(row[0]) if row else 0

    def _keep_anchor(self) -> None:
        keep_anchor(self._journal.anchor)

    def _parts(self, db: Db, rows: Sequence[Stored]) -> list[int]:
        """Return each row's position within its append, for rows with a key; 1 for the others."""
        keys = {row[3] for row in rows if row[3]}
        last = {"": 0, **dict(db.execute(_PARTS, (self._id, list(keys))).fetchall())}
        parts = []
        for row in rows:
            if key := row[3]:
                last[key] = last.get(key, 0) + 1
            parts.append(last[key] or 1)
        return parts


def peek(dsn: str, workspace: str) -> Head | None:
    """Return how far a workspace reaches in a store, without creating anything there; None if it is not there."""
    with Address(dsn).visiting() as db:
        row = db.execute(_IS_THERE).fetchone()
        found = db.execute(_NAMED, (workspace,)).fetchone() if row and row[0] else None
    return Head(*found) if found else None
