"""The way of a journal that lives as long as its process to another place, or in from one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from takeback.core.intents import IntentState
from takeback.ports.relocation import QueueRow, Stored
from takeback.storage.journal.batch import JournalRow
from takeback.storage.journal.relocation import moved, next_of, refuse_at_work, refuse_open, refuse_shutting

if TYPE_CHECKING:
    from takeback.storage.journal.memory.journal import InMemoryJournal


class InMemoryMoving:
    """The whole contract but durability."""

    def __init__(self, journal: InMemoryJournal) -> None:
        self._journal = journal
        self._notice = ""

    def refuse(self) -> None:
        """For whoever is about to write."""
        if self._notice:
            raise moved(self._notice)

    def shut(self, notice: str, *, at: int | None = None) -> None:
        journal = self._journal
        with journal.lock:
            refuse_shutting(at, journal.head().count)
            if not self._notice:
                refuse_at_work(journal.outbox.counts().get(IntentState.CLAIMED, 0), journal.leases.all())
            self._notice = notice

    def reopen(self) -> None:
        self._notice = ""

    def notice(self) -> str:
        return self._notice

    def rows(self, *, after: int = 0) -> Iterator[Stored]:
        return iter([row[:] for row in self._journal.rows[after:]])

    def adopt(self, rows: Sequence[Stored], queue: Sequence[QueueRow] = (), fence: int = 0) -> None:
        journal = self._journal
        with journal.lock:
            refuse_open(self._notice)
            present = journal.rows
            fresh, records = next_of(rows, len(present), lambda seq: present[seq - 1], journal.head)
            journal.rows += [JournalRow(*row) for row in fresh]
            journal.anchored |= {record.seq: record.digest for record in records}
            journal.outbox_table.project(None, records)
            journal.outbox_table.adopt(queue)
            journal.lease_table.skip(fence)

    def queue(self, *, after: int = 0, limit: int = 1000) -> Sequence[QueueRow]:
        with self._journal.lock:
            behind = (row for row in self._journal.outbox_table.known() if row.id > after)
            return list(itertools.islice(behind, limit))

    def fence(self) -> int:
        return self._journal.lease_table.last
