"""Moving a journal in a SQLite file to another store, or filling it from one.

A journal that is shut has a padlock: triggers that refuse every write that matters. So the refusal also reaches a
process that opened the file earlier, with any version of Takeback, in the very transaction that would write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import apsw

from takeback.core.events import Event
from takeback.core.leases import Lease
from takeback.core.record import Record
from takeback.ports.relocation import QueueRow, Stored
from takeback.storage.journal.relocation import StoredMoving, keep_anchor, moved
from takeback.storage.journal.sqlite import statements
from takeback.storage.journal.sqlite.errors import SHUT

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


class SqliteMoving(StoredMoving[apsw.Connection]):
    """The padlock of one journal, and the rows taken in while it is on."""

    _journal: SqliteJournal

    def _hold(self, work: Callable[[apsw.Connection], None]) -> None:
        def decide(db: apsw.Connection) -> list[Event]:
            work(db)
            return []

        self._journal.decide(decide)

    def _notice(self, db: apsw.Connection) -> str:
        return _notice(db)

    def _set_notice(self, db: apsw.Connection, notice: str) -> None:
        for name in _PADLOCK:
            db.execute(f"DROP TRIGGER IF EXISTS {name}")
        db.execute("DROP TABLE IF EXISTS shut")
        if notice:
            db.execute("CREATE TABLE shut (notice TEXT NOT NULL, adopting INTEGER NOT NULL DEFAULT 0)")
            db.execute("INSERT INTO shut (notice) VALUES (?)", (notice,))
            said = (SHUT + notice).replace("'", "''")
            for name, what in _PADLOCK.items():
                db.execute(_LOCK.format(name=name, what=what, said=said))

    def _claimed(self, db: apsw.Connection) -> int:
        return cast("int", db.execute(_CLAIMED).get)

    def _leases(self, db: apsw.Connection) -> list[Lease]:
        return self._journal.lease_table.leases(db)

    def _take_in(
        self,
        db: apsw.Connection,
        fresh: Sequence[Stored],
        records: Sequence[Record],
        queue: Sequence[QueueRow],
        fence: int,
    ) -> None:
        db.execute("UPDATE shut SET adopting = 1")
        statements.insert(db, self._journal.packed(db, fresh, records))
        self._journal.outbox_table.project(db, records)
        db.executemany(
            "UPDATE outbox SET fence = ?, result = ? WHERE id = ?",
            [(row.fence, row.result, row.id) for row in queue],
        )
        if fence > self._fence(db):
            db.execute("DELETE FROM sqlite_sequence WHERE name = 'leases'")
            db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('leases', ?)", (fence,))
        db.execute("UPDATE shut SET adopting = 0")

    def _queue(self, db: apsw.Connection, after: int, limit: int) -> list[QueueRow]:
        return [QueueRow(*row) for row in db.execute(_QUEUE, (after, limit))]

    def _fence(self, db: apsw.Connection) -> int:
        return cast("int", db.execute(_FENCE).get)

    def _keep_anchor(self) -> None:
        keep_anchor(self._journal.anchor)


def refuse_shut(db: apsw.Connection) -> None:
    """Raise StoreMoved if the journal is shut; for a writer that would reach the anchor before the triggers."""
    if notice := _notice(db):
        raise moved(notice)


def _notice(db: apsw.Connection) -> str:
    is_shut = db.execute(_IS_SHUT).get
    return cast("str", db.execute("SELECT notice FROM shut").get) if is_shut else ""
