"""Moving a journal that lives in memory to another store, or filling it from one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from takeback.core.intents import IntentState
from takeback.core.leases import Lease
from takeback.core.record import Record
from takeback.ports.relocation import QueueRow, Stored
from takeback.storage.journal.batch import JournalRow
from takeback.storage.journal.relocation import StoredMoving, moved

if TYPE_CHECKING:
    from takeback.storage.journal.memory.journal import InMemoryJournal


class InMemoryMoving(StoredMoving[None]):
    """The whole contract except durability."""

    _journal: InMemoryJournal

    def __init__(self, journal: InMemoryJournal) -> None:
        super().__init__(journal)
        self._said = ""

    def refuse(self) -> None:
        """Raise StoreMoved if the journal is shut. Called before every write."""
        if self._said:
            raise moved(self._said)

    def _hold(self, work: Callable[[None], None]) -> None:
        self._journal.ask(work)

    def _notice(self, db: None) -> str:
        return self._said

    def _set_notice(self, db: None, notice: str) -> None:
        self._said = notice

    def _claimed(self, db: None) -> int:
        return self._journal.outbox_table.counts(db).get(IntentState.CLAIMED, 0)

    def _leases(self, db: None) -> Collection[Lease]:
        return self._journal.lease_table.leases(db)

    def _take_in(
        self,
        db: None,
        fresh: Sequence[Stored],
        records: Sequence[Record],
        queue: Sequence[QueueRow],
        fence: int,
    ) -> None:
        self._journal.rows += [JournalRow(*row) for row in fresh]
        self._journal.anchors |= {record.seq: record.digest for record in records}
        self._journal.outbox_table.project(db, records)
        self._journal.outbox_table.adopt(queue)
        self._journal.lease_table.skip(fence)

    def _queue(self, db: None, after: int, limit: int) -> list[QueueRow]:
        behind = (row for row in self._journal.outbox_table.known() if row.id > after)
        return list(itertools.islice(behind, limit))

    def _fence(self, db: None) -> int:
        return self._journal.lease_table.last

    def _keep_anchor(self) -> None:
        """Do nothing: an anchor in memory cannot get lost."""
