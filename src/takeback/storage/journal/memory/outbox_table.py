"""The outbox of a journal that lives as long as its process."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from takeback.core import ids
from takeback.core import intents as i
from takeback.core.intents import RELEASED, IntentState, Queued
from takeback.core.record import Record
from takeback.ports.relocation import QueueRow
from takeback.storage.journal.outbox import OutboxTable, moved, queued_of


class _Row(msgspec.Struct):
    record: Record
    order: str
    state: IntentState = IntentState.HELD
    released: int = 0
    due_us: int = 0
    attempts: int = 0
    unsure: bool = False
    changed_us: int = 0
    fence: int = 0
    owner: str = ""
    until_s: float = 0.0
    started: bool = False
    result: bytes | None = None
    failed: list[Record] = []

    @property
    def live(self) -> bool:
        return self.state is IntentState.CLAIMED and self.until_s > time.monotonic()

    def seen(self) -> Queued:
        return queued_of(
            self.record,
            self.state,
            self.result,
            changed_us=self.changed_us,
            due_us=self.due_us,
            attempts=self.attempts,
            unsure=self.unsure,
            fence=self.fence,
            owner=self.owner,
            begun=self.started,
            live=self.live,
        )


class InMemoryOutboxTable(OutboxTable[None]):
    """Intents in a dict, by the event that deferred them."""

    def __init__(self, now_us: Callable[[], int], refuse: Callable[[], None]) -> None:
        """`refuse` raises an error once the journal is shut."""
        self._now_us = now_us
        self._refuse = refuse
        self._rows: dict[int, _Row] = {}

    # What each event changes

    def project(self, db: None, records: Sequence[Record]) -> None:
        for record in records:
            event = record.event
            if isinstance(event, i.IntentDeferred):
                self._rows[record.seq] = _Row(record, event.order, changed_us=record.at_us)
            elif isinstance(event, i.IntentsReleased):
                for id in event.intents:
                    if (row := self._row(id)).state is IntentState.HELD:
                        self._release(row, record)
            elif isinstance(event, i.IntentRevived):
                self._row(event.intent).attempts = 0
                self._release(self._row(event.intent), record)
            elif type(event) in i.AFTER:
                self._move(record)

    def _row(self, id: str) -> _Row:
        return self._rows[ids.seq_of(id)]

    def _release(self, row: _Row, record: Record) -> None:
        row.state = IntentState.QUEUED if self._in_order(row) else IntentState.DUE
        row.released, row.due_us, row.changed_us = record.seq, record.at_us, record.at_us

    def _move(self, record: Record) -> None:
        row, after = self._row(getattr(record.event, "intent", "")), moved(record.event)
        row.state, row.changed_us, row.owner, row.started = after.state, record.at_us, "", False
        row.due_us = after.due_us
        row.attempts = max(row.attempts, after.attempt)
        row.unsure = row.unsure or after.unsure
        if after.failed:
            row.failed.append(record)
        waiting = self._in_order(row)
        if row.state is not IntentState.DUE and waiting and waiting[0].state is IntentState.QUEUED:
            waiting[0].state = IntentState.DUE

    def _in_order(self, row: _Row) -> list[_Row]:
        """Return the intents on their way with the same ordering key, in order."""
        same = [r for r in self._rows.values() if row.order and r.order == row.order and r.state in RELEASED]
        return sorted(same, key=lambda r: (r.state is IntentState.QUEUED, r.released, r.record.seq))

    def known(self) -> Iterator[QueueRow]:
        """Return what the events do not record: the fence and the result of each intent."""
        for seq, row in self._rows.items():
            if row.fence or row.result:
                yield QueueRow(seq, row.fence, row.result)

    def adopt(self, queue: Sequence[QueueRow]) -> None:
        for id, fence, result in queue:
            self._rows[id].fence, self._rows[id].result = fence, result

    # Claims

    def now_us(self, db: None) -> int:
        return self._now_us()

    def is_work(self, db: None) -> bool:
        return bool(self._due("") or any(not row.live for row in self._claimed()))

    def lapsed(self, db: None, limit: int) -> list[Queued]:
        return [row.seen() for row in self._claimed() if not row.live][:limit]

    def claim(self, db: None, owner: str, limit: int, lease_s: float, run: str) -> list[Queued]:
        self._refuse()
        taken = self._due(run)[:limit]
        for row in taken:
            row.state, row.owner, row.started = IntentState.CLAIMED, owner, False
            row.fence, row.until_s = row.fence + 1, time.monotonic() + lease_s
        return [row.seen() for row in taken]

    def start(self, db: None, queued: Sequence[Queued], *, begun: bool) -> frozenset[str]:
        self._refuse()
        mine = self._mine(queued)
        for row in mine:
            row.started = begun
        return frozenset(row.record.id for row in mine)

    def renew(self, db: None, queued: Sequence[Queued], lease_s: float) -> frozenset[str]:
        self._refuse()
        mine = self._mine(queued)
        for row in mine:
            row.until_s = time.monotonic() + lease_s
        return frozenset(row.record.id for row in mine)

    def held_of(self, db: None, queued: Sequence[Queued]) -> frozenset[str]:
        return frozenset(row.record.id for row in self._mine(queued))

    def requeue(self, db: None, queued: Queued) -> None:
        self._refuse()
        row = self._row(queued.id)
        row.state, row.owner = IntentState.DUE, ""

    def keep_results(self, db: None, results: Mapping[str, bytes]) -> None:
        self._refuse()
        for id, result in results.items():
            self._row(id).result = result

    def _due(self, run: str) -> list[_Row]:
        now_us = self._now_us()
        due = [
            row
            for row in self._rows.values()
            if row.state is IntentState.DUE and row.due_us <= now_us and run in ("", row.record.stream)
        ]
        return sorted(due, key=lambda row: (row.due_us, row.record.seq))

    def _claimed(self) -> list[_Row]:
        return [row for row in self._rows.values() if row.state is IntentState.CLAIMED]

    def _mine(self, queued: Sequence[Queued]) -> list[_Row]:
        found = [(self._row(one.id), one.fence) for one in queued]
        return [row for row, fence in found if row.state is IntentState.CLAIMED and row.fence == fence]

    # Looking

    def one(self, db: None, id: str, *, held: bool = False) -> Queued | None:
        row = self._rows.get(ids.seq_of(id))
        return row.seen() if row else None

    def of_owner(self, db: None, owner: str) -> list[Queued]:
        return [row.seen() for row in self._claimed() if row.owner == owner]

    def owners(self, db: None) -> list[str]:
        return sorted({row.owner for row in self._claimed()})

    def page(self, db: None, states: Sequence[IntentState], after: int, limit: int, run: str) -> list[Queued]:
        found = [row for seq, row in self._rows.items() if row.state in states and seq > after]
        return [row.seen() for row in found if run in ("", row.record.stream)][:limit]

    def attempts(self, db: None, id: str) -> list[Record]:
        row = self._rows.get(ids.seq_of(id))
        return list(row.failed) if row else []

    def counts(self, db: None) -> dict[IntentState, int]:
        return dict(Counter(row.state for row in self._rows.values()))

    def next_due_us(self, db: None) -> int:
        return min((row.due_us for row in self._rows.values() if row.state is IntentState.DUE), default=0)
