"""A journal that lives as long as its process: `store="memory"`, for short-lived agents and users' tests."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

from takeback.core import ids
from takeback.core.events import Event
from takeback.core.record import Record
from takeback.errors import UsageError
from takeback.ports.clock import Clock
from takeback.ports.journal import Finding, Head
from takeback.ports.progress import Progress, silent
from takeback.ports.relocation import Stored
from takeback.storage.journal.batch import NOTHING, Batch, JournalRow, cut, refuse_lost
from takeback.storage.journal.compaction import StoredCompaction, audited
from takeback.storage.journal.leases import StoredLeases
from takeback.storage.journal.memory.lease_table import InMemoryLeaseTable
from takeback.storage.journal.memory.outbox_table import InMemoryOutboxTable
from takeback.storage.journal.memory.relocation import InMemoryMoving
from takeback.storage.journal.outbox import StoredOutbox
from takeback.storage.journal.stored_journal import EventTable, StoredJournal
from takeback.storage.journal.verify import VERIFYING
from takeback.system.clock import SystemClock

T = TypeVar("T")


class InMemoryEventTable(EventTable[None]):
    """The events in a journal's list."""

    def __init__(self, journal: InMemoryJournal) -> None:
        self._journal = journal

    def head(self, db: None, stream: str | None = None) -> Head:
        rows = self._journal.rows
        if stream is None:
            return Head(rows[-1].seq, rows[-1].digest) if rows else NOTHING
        last = next((row for row in reversed(rows) if row.stream == stream), None)
        return Head(last.n, last.digest) if last else NOTHING

    def head_at(self, db: None, stream: str, seq: int) -> Head:
        upto = (row for row in reversed(self._journal.rows) if row.stream == stream and row.seq <= seq)
        return next((Head(row.n, row.digest) for row in upto), NOTHING)

    def row(self, db: None, seq: int) -> Stored | None:
        near = self._journal.rows[max(0, seq - 1) : max(0, seq)]
        return next((row for row in near if row.seq == seq), None)

    def keyed(self, db: None, key: str) -> list[JournalRow]:
        return [row for row in self._journal.rows if key and row.key == key]

    def replace(self, db: None, rows: Sequence[Stored]) -> None:
        for row in rows:
            self._journal.rows[row[0] - 1] = JournalRow(*row)

    def packed_heads(self, db: None, after: int) -> list[tuple[int, bytes]]:
        return []  # nothing is packed here

    def page(self, db: None, start: int, end: int, stream: str | None = None) -> list[Stored]:
        if stream is None:
            return [row for row in self._journal.rows if start < row.seq <= end]
        return [row for row in self._journal.rows if row.stream == stream and start < row.n <= end]


class InMemoryJournal(StoredJournal[None]):
    """The whole contract except durability. `rows` and `anchors` are public for tests that tamper with them."""

    seats = None

    def __init__(self, *, clock: Clock | None = None) -> None:
        super().__init__(InMemoryEventTable(self))
        self.rows: list[JournalRow] = []
        self.anchors: dict[int, str] = {}
        self._clock = clock or SystemClock()
        self._process = os.getpid()
        self.lock = threading.RLock()
        self.moving = InMemoryMoving(self)
        self.compaction = StoredCompaction(self)
        self.lease_table = InMemoryLeaseTable(self.moving.refuse)
        self.leases = StoredLeases(self, self.lease_table, self._clock.now_us)
        self.outbox_table = InMemoryOutboxTable(self._clock.now_us, self.moving.refuse)
        self.outbox = StoredOutbox(self, self.outbox_table)

    def append(
        self,
        events: Sequence[Event],
        *,
        stream: str,
        expect: int | None = None,
        key: str = "",
        durable: bool = True,
        fences: Collection[int] = (),
    ) -> tuple[Record, ...]:
        batch = Batch(tuple(events), stream, expect, key)
        self._refuse_forked()
        with self.lock:
            if earlier := self.find(key):
                return batch.answer(earlier)
            self.moving.refuse()
            refuse_lost(fences, self.lease_table.held(None, fences))
            last, anchored = self.head().count, max(self.anchors, default=0)
            if anchored > last:
                raise cut(last, anchored)
            seq = last + 1
            head = self.head(batch.stream_at(seq))
            rows, records = batch.seal(seq=seq, head=head, at_us=self._clock.now_us())
            self.rows += [JournalRow(*row) for row in rows]
            self.anchors |= {record.seq: record.digest for record in records}
            self.outbox_table.project(None, records)
            return records

    def ask(self, work: Callable[[None], T]) -> T:
        with self.lock:
            return work(None)

    change = ask

    def decide(
        self,
        work: Callable[[None], Sequence[Event]],
        *,
        durable: bool = True,
        seated: bool = False,
    ) -> None:
        with self.lock:
            if events := work(None):
                self.append(events, stream=ids.WORKSPACE)

    def _refuse_forked(self) -> None:
        """Raise UsageError in a forked process: what it wrote to its copy of the memory would be lost silently."""
        if os.getpid() != self._process:
            raise UsageError(
                f"this history is in the memory of process {self._process}, and this process is a fork of it. "
                "Nothing was recorded",
                hint="record it in the process that opened the workspace, or open it without store='memory'",
            )

    def check(self, *, since: int = 0, progress: Progress = silent) -> Iterator[Finding]:
        with self.lock:
            rows = [row for row in self.rows if not since or row.seq > since]
            anchored = {seq: name for seq, name in self.anchors.items() if seq > since}
        return audited(self, progress(VERIFYING, rows, len(rows)), anchored, since)

    def durable_head(self) -> Head:
        return self.head()

    def sync(self) -> None:
        """Do nothing: nothing outlives the process."""

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
