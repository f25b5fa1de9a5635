"""The way of a journal in a PostgreSQL database to another place, or in from one.

The row that every append moves says that the journal is shut. So who has been connected since before finds out in the
very statement that would write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from takeback.core.leases import Lease
from takeback.ports.journal import Head
from takeback.ports.relocation import QueueRow, Stored
from takeback.storage.journal.anchor import Anchor
from takeback.storage.journal.batch import missing
from takeback.storage.journal.postgres import outbox_table, statements
from takeback.storage.journal.postgres.connection import Address
from takeback.storage.journal.postgres.session import PostgresSession
from takeback.storage.journal.relocation import (
    ADOPTING,
    keep_anchor,
    next_of,
    refuse_at_work,
    refuse_open,
    refuse_shutting,
)
from takeback.system.crash_points import reach

if TYPE_CHECKING:
    import psycopg

    Db = psycopg.Connection[tuple[Any, ...]]

T = TypeVar("T")

_NOTICE = b"SELECT shut FROM takeback_store.workspaces WHERE id = %s"
_SHUT = b"UPDATE takeback_store.workspaces SET shut = %s WHERE id = %s"
_CLAIMED = b"SELECT count(*) FROM takeback_store.outbox WHERE workspace = %s AND state = 'claimed'"
_QUEUE = (
    b"SELECT id, fence, result FROM takeback_store.outbox WHERE workspace = %s AND id > %s"
    b" AND (fence > 0 OR result IS NOT NULL) ORDER BY id LIMIT %s"
)
_KNOWN = b"UPDATE takeback_store.outbox SET fence = %s, result = %s WHERE workspace = %s AND id = %s"
_FENCE = b"SELECT fence FROM takeback_store.workspaces WHERE id = %s"
# Nobody sits where it was taken in: whoever appends first does.
_SKIP = b"UPDATE takeback_store.workspaces SET fence = greatest(fence, %s), seat = 0 WHERE id = %s"
_PARTS = (
    b"SELECT key, max(part) FROM takeback_store.events WHERE workspace = %s AND key = ANY(%s) GROUP BY key"
)
_IS_THERE = b"SELECT to_regclass('takeback_store.workspaces') IS NOT NULL"
_NAMED = b"SELECT count, digest FROM takeback_store.workspaces WHERE name = %s"


class PostgresMoving:
    """`takeback.ports.relocation.Moving` of one journal."""

    def __init__(self, session: PostgresSession, leases: Callable[[Db], list[Lease]], anchor: Anchor) -> None:
        self._session = session
        self._anchor = anchor
        self._leases = leases

    @property
    def _id(self) -> int:
        return self._session.id

    def shut(self, notice: str, *, at: int | None = None) -> None:
        def work(db: Db, head: Head) -> None:
            refuse_shutting(at, head.count)
            if not self._notice(db):
                row = db.execute(_CLAIMED, (self._id,)).fetchone()
                refuse_at_work(row[0] if row else 0, self._leases(db))
            db.execute(_SHUT, (notice, self._id))

        self._hold(work)

    def reopen(self) -> None:
        if self.notice():  # who may only read has nothing to do here in most cases
            self._hold(lambda db, _: db.execute(_SHUT, ("", self._id)))

    def notice(self) -> str:
        return self._session.ask(self._notice)

    def rows(self, *, after: int = 0) -> Iterator[Stored]:
        end = self._session.ask(lambda db: statements.head(db, self._id)).count
        while after < end:
            page = self._page(after, end)
            if not page:
                raise missing(after + 1)
            yield from page
            after = page[-1][0]

    def _page(self, after: int, end: int) -> list[Stored]:
        return self._session.ask(lambda db: statements.page(db, self._id, after, end))

    def adopt(self, rows: Sequence[Stored], queue: Sequence[QueueRow] = (), fence: int = 0) -> None:
        def work(db: Db, head: Head) -> None:
            refuse_open(self._notice(db))
            fresh, records = next_of(
                rows,
                head.count,
                lambda seq: statements.get(db, self._id, seq),
                lambda stream: statements.head(db, self._id, stream),
            )
            if fresh:
                statements.take_in(db, self._id, head, fresh, self._parts(db, fresh))
                outbox_table.project(db, self._id, records)
            for row in queue:
                db.execute(_KNOWN, (row.fence, row.result, self._id, row.id))
            db.execute(_SKIP, (fence, self._id))
            reach(ADOPTING)

        keep_anchor(self._anchor)
        self._hold(work)

    def queue(self, *, after: int = 0, limit: int = 1000) -> Sequence[QueueRow]:
        found = self._session.ask(lambda db: db.execute(_QUEUE, (self._id, after, limit)).fetchall())
        return [QueueRow(*row) for row in found]

    def fence(self) -> int:
        row = self._session.ask(lambda db: db.execute(_FENCE, (self._id,)).fetchone())
        return int(row[0]) if row else 0

    def _hold(self, work: Callable[[Db, Head], object]) -> None:
        """One transaction that holds the end of the journal. What is done twice is the same as once."""

        def held(db: Db) -> None:
            try:
                head, _ = statements.lock(db, self._id, also_shut=True)
                work(db, head)
                statements.commit(db)
            except BaseException:
                self._session.roll_back(db)
                raise

        self._session.ask(held)

    def _notice(self, db: Db) -> str:
        row = db.execute(_NOTICE, (self._id,)).fetchone()
        return str(row[0]) if row else ""

    def _parts(self, db: Db, rows: Sequence[Stored]) -> list[int]:
        """The place of each in its append, as far as it is found by that: of those with a key."""
        keys = {row[3] for row in rows if row[3]}
        last = {"": 0, **dict(db.execute(_PARTS, (self._id, list(keys))).fetchall())}
        parts = []
        for row in rows:
            if key := row[3]:
                last[key] = last.get(key, 0) + 1
            parts.append(last[key] or 1)
        return parts


def peek(dsn: str, workspace: str) -> Head | None:
    """How far a workspace reaches in a store, without making anything there; None where it is not there."""
    with Address(dsn).visiting() as db:
        row = db.execute(_IS_THERE).fetchone()
        found = db.execute(_NAMED, (workspace,)).fetchone() if row and row[0] else None
    return Head(*found) if found else None
