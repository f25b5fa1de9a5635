"""The way of a journal in a SQLite file to another place, or in from one.

A journal that is shut has a padlock: triggers that refuse every write that counts. So it holds for whoever has had
the file open since before, whatever version of Takeback that is, in the very transaction that would write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

import apsw

from takeback.core.events import Event
from takeback.ports.relocation import QueueRow, Stored
from takeback.storage.journal.batch import missing
from takeback.storage.journal.relocation import (
    ADOPTING,
    keep_anchor,
    moved,
    next_of,
    refuse_at_work,
    refuse_open,
    refuse_shutting,
)
from takeback.storage.journal.sqlite import statements
from takeback.storage.journal.sqlite.errors import SHUT
from takeback.system.crash_points import reach

if TYPE_CHECKING:
    from takeback.storage.journal.sqlite.journal import SqliteJournal

_PADLOCK = {
    "shut_events": "INSERT ON events",
    "shut_claims": "UPDATE ON outbox",
    "shut_leases": "INSERT ON leases",
    "shut_renewals": "UPDATE ON leases",
}
_LOCK = (
    "CREATE TRIGGER {name} BEFORE {what} WHEN (SELECT adopting FROM shut) = 0 "
    "BEGIN SELECT RAISE(ABORT, '{said}'); END"
)
_IS_SHUT = "SELECT count(*) FROM sqlite_schema WHERE name = 'shut'"
_CLAIMED = "SELECT count(*) FROM outbox WHERE state = 'claimed'"
_QUEUE = "SELECT id, fence, result FROM outbox WHERE id > ? AND (fence > 0 OR result IS NOT NULL) ORDER BY id LIMIT ?"
_FENCE = "SELECT ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'leases'), 0)"


class SqliteMoving:
    """`takeback.ports.relocation.Moving` of one journal."""

    def __init__(self, journal: SqliteJournal) -> None:
        self._journal = journal

    def shut(self, notice: str, *, at: int | None = None) -> None:
        def work(db: apsw.Connection) -> list[Event]:
            refuse_shutting(at, statements.head(db, None).count)
            if not _notice(db):
                refuse_at_work(cast("int", db.execute(_CLAIMED).get), self._journal.lease_table.leases(db))
            _unlock(db)
            db.execute("CREATE TABLE shut (notice TEXT NOT NULL, adopting INTEGER NOT NULL DEFAULT 0)")
            db.execute("INSERT INTO shut (notice) VALUES (?)", (notice,))
            said = (SHUT + notice).replace("'", "''")
            for name, what in _PADLOCK.items():
                db.execute(_LOCK.format(name=name, what=what, said=said))
            return []

        self._journal.decide(work)

    def reopen(self) -> None:
        def work(db: apsw.Connection) -> list[Event]:
            _unlock(db)
            return []

        if self.notice():
            self._journal.decide(work)

    def notice(self) -> str:
        with self._journal.lock, self._journal.using() as db:
            return _notice(db)

    def rows(self, *, after: int = 0) -> Iterator[Stored]:
        end = self._journal.head().count
        while after < end:
            with self._journal.lock, self._journal.using() as db:
                page = statements.page(db, after, end)
            if not page:
                raise missing(after + 1)
            yield from page
            after = page[-1][0]

    def adopt(self, rows: Sequence[Stored], queue: Sequence[QueueRow] = (), fence: int = 0) -> None:
        def work(db: apsw.Connection) -> list[Event]:
            refuse_open(_notice(db))
            last = statements.head(db, None).count
            fresh, records = next_of(
                rows,
                last,
                lambda seq: statements.get(db, seq),
                lambda stream: statements.head(db, stream),
            )
            db.execute("UPDATE shut SET adopting = 1")
            statements.insert(db, fresh)
            self._journal.outbox_table.project(db, records)
            db.executemany(
                "UPDATE outbox SET fence = ?, result = ? WHERE id = ?",
                [(row.fence, row.result, row.id) for row in queue],
            )
            _skip(db, fence)
            db.execute("UPDATE shut SET adopting = 0")
            reach(ADOPTING)
            return []

        keep_anchor(self._journal.anchor)
        self._journal.decide(work)

    def queue(self, *, after: int = 0, limit: int = 1000) -> Sequence[QueueRow]:
        with self._journal.lock, self._journal.using() as db:
            return [QueueRow(*row) for row in db.execute(_QUEUE, (after, limit))]

    def fence(self) -> int:
        with self._journal.lock, self._journal.using() as db:
            return cast("int", db.execute(_FENCE).get)


def refuse_shut(db: apsw.Connection) -> None:
    """For whoever looks at more than the tables before it writes."""
    if notice := _notice(db):
        raise moved(notice)


def _notice(db: apsw.Connection) -> str:
    is_shut = db.execute(_IS_SHUT).get
    return cast("str", db.execute("SELECT notice FROM shut").get) if is_shut else ""


def _unlock(db: apsw.Connection) -> None:
    for name in _PADLOCK:
        db.execute(f"DROP TRIGGER IF EXISTS {name}")
    db.execute("DROP TABLE IF EXISTS shut")


def _skip(db: apsw.Connection, fence: int) -> None:
    """Give no lease a number up to this one."""
    if fence > cast("int", db.execute(_FENCE).get):
        db.execute("DELETE FROM sqlite_sequence WHERE name = 'leases'")
        db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('leases', ?)", (fence,))
