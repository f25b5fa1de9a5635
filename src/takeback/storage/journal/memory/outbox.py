"""The outbox of a journal that lives as long as its process."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from takeback.core import ids
from takeback.core import intents as i
from takeback.core.events import Event
from takeback.core.intents import RELEASED, AttemptOutcome, IntentState, Queued
from takeback.core.record import Record
from takeback.ports.relocation import QueueRow
from takeback.storage.journal import outbox_rules as rules

if TYPE_CHECKING:
    from takeback.storage.journal.memory.journal import InMemoryJournal


class _Row(msgspec.Struct):
    record: Record
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
    result: Any = None
    failed: list[Record] = []

    @property
    def deferred(self) -> i.IntentDeferred:
        event = self.record.event
        assert isinstance(event, i.IntentDeferred)
        return event

    def seen(self) -> Queued:
        return Queued(
            self.record.id,
            self.record.stream,
            self.deferred,
            self.record.at_us,
            self.state,
            self.changed_us,
            self.due_us,
            self.attempts,
            self.unsure,
            self.fence,
            self.owner,
            self.started,
            self.state is IntentState.CLAIMED and self.until_s > time.monotonic(),
            self.result,
        )


class InMemoryOutbox:
    """The whole contract but durability."""

    def __init__(self, journal: InMemoryJournal, now_us: Callable[[], int], lock: threading.RLock) -> None:
        self._journal = journal
        self._now_us = now_us
        self._lock = lock
        self._rows: dict[str, _Row] = {}

    # What each event does

    def project(self, records: Sequence[Record]) -> None:
        for record in records:
            event = record.event
            if isinstance(event, i.IntentDeferred):
                self._rows[record.id] = _Row(record, changed_us=record.at_us)
            elif isinstance(event, i.IntentsReleased):
                for id in event.intents:
                    if (row := self._rows[id]).state is IntentState.HELD:
                        self._release(row, record)
            elif isinstance(event, i.IntentRevived):
                self._rows[event.intent].attempts = 0
                self._release(self._rows[event.intent], record)
            elif type(event) in i.AFTER:
                self._move(record, event)

    def _release(self, row: _Row, record: Record) -> None:
        row.state = IntentState.QUEUED if self._in_order(row) else IntentState.DUE
        row.released, row.due_us, row.changed_us = record.seq, record.at_us, record.at_us

    def _move(self, record: Record, event: Any) -> None:
        row = self._rows[event.intent]
        row.state, row.changed_us, row.owner, row.started = i.AFTER[type(event)], record.at_us, "", False
        row.due_us = getattr(event, "again_us", 0)
        row.attempts = max(row.attempts, getattr(event, "attempt", 0))
        row.unsure = row.unsure or getattr(event, "unsure", False)
        if isinstance(event, i.IntentAttempted | i.IntentDied):
            row.failed.append(record)
        waiting = self._in_order(row)
        if row.state is not IntentState.DUE and waiting and waiting[0].state is IntentState.QUEUED:
            waiting[0].state = IntentState.DUE

    def _in_order(self, row: _Row) -> list[_Row]:
        """What is on its way with the same ordering key, in order."""
        order = row.deferred.order
        same = [r for r in self._rows.values() if order and r.deferred.order == order and r.state in RELEASED]
        return sorted(same, key=lambda r: (r.state is IntentState.QUEUED, r.released, r.record.seq))

    def known(self) -> Iterator[QueueRow]:
        """What no event tells of each intent."""
        for row in self._rows.values():
            result = None if row.result is None else msgspec.json.encode(row.result)
            if row.fence or result:
                yield QueueRow(row.record.seq, row.fence, result)

    def adopt(self, queue: Sequence[QueueRow]) -> None:
        for id, fence, result in queue:
            row = self._rows[ids.make(ids.INTENT, id)]
            row.fence, row.result = fence, msgspec.json.decode(result) if result else None

    # What workers do

    def claim(self, owner: str, limit: int, lease_s: float, *, run: str = "") -> Sequence[Queued]:
        with self._lock:
            self._journal.moving.refuse()
            self._give_up([row for row in self._claimed() if not row.seen().live])
            due = [
                row
                for row in self._rows.values()
                if row.state is IntentState.DUE
                and row.due_us <= self._now_us()
                and run in ("", row.record.stream)
            ]
            taken = sorted(due, key=lambda row: (row.due_us, row.record.seq))[:limit]
            for row in taken:
                row.state, row.owner, row.fence, row.started = (
                    IntentState.CLAIMED,
                    owner,
                    row.fence + 1,
                    False,
                )
                row.until_s = time.monotonic() + lease_s
            return [row.seen() for row in taken]

    def start(self, queued: Sequence[Queued], *, begun: bool = True) -> frozenset[str]:
        with self._lock:
            mine = self._mine(queued)
            for row in mine:
                row.started = begun
            return frozenset(row.record.id for row in mine)

    def renew(self, queued: Sequence[Queued], lease_s: float) -> frozenset[str]:
        with self._lock:
            mine = self._mine(queued)
            for row in mine:
                row.until_s = time.monotonic() + lease_s
            return frozenset(row.record.id for row in mine)

    def settle(self, outcomes: Sequence[AttemptOutcome]) -> frozenset[str]:
        with self._lock:
            held = [one for one in rules.once(outcomes) if self._mine([one.queued])]
            for outcome in held:
                self._rows[outcome.queued.id].result = outcome.result
            self._say([outcome.word for outcome in held])
            return frozenset(outcome.queued.id for outcome in held)

    def free(self, owner: str) -> int:
        with self._lock:
            held = [row for row in self._claimed() if row.owner == owner]
            self._give_up(held)
            return len(held)

    # What others do

    def cancel(self, id: str, rollback: str = "") -> Queued:
        return self._decided(id, lambda queued: rules.cancelled(queued, rollback))

    def revive(self, id: str, actor: str = "") -> Queued:
        return self._decided(id, lambda queued: rules.revived(queued, actor))

    def drop(self, id: str, actor: str = "", why: str = "") -> Queued:
        return self._decided(id, lambda queued: rules.dropped(queued, actor, why))

    def get(self, id: str) -> Queued | None:
        with self._lock:
            ids.parse(id)
            return self._rows[id].seen() if id in self._rows else None

    def page(
        self,
        states: Sequence[IntentState] = tuple(IntentState),
        *,
        after: str = "",
        limit: int = 100,
        run: str = "",
    ) -> Sequence[Queued]:
        with self._lock:
            behind = ids.seq_of(after) if after else 0
            found = [r for r in self._rows.values() if r.state in states and r.record.seq > behind]
            return [row.seen() for row in found if run in ("", row.record.stream)][:limit]

    def attempts(self, id: str) -> Sequence[Record]:
        with self._lock:
            return list(self._rows[id].failed) if id in self._rows else []

    def counts(self) -> dict[IntentState, int]:
        with self._lock:
            return dict(Counter(row.state for row in self._rows.values()))

    def next_due_us(self) -> int:
        with self._lock:
            return min((row.due_us for row in self._rows.values() if row.state is IntentState.DUE), default=0)

    def owners(self) -> Sequence[str]:
        with self._lock:
            return sorted({row.owner for row in self._claimed()})

    def _claimed(self) -> list[_Row]:
        return [row for row in self._rows.values() if row.state is IntentState.CLAIMED]

    def _mine(self, queued: Sequence[Queued]) -> list[_Row]:
        found = [(self._rows[one.id], one.fence) for one in queued]
        return [row for row, fence in found if row.state is IntentState.CLAIMED and row.fence == fence]

    def _give_up(self, held: Sequence[_Row]) -> None:
        begun = [rules.given_up(row.seen(), self._now_us()) for row in held if row.started]
        for row in held:
            if not row.started:
                row.state, row.owner = IntentState.DUE, ""
        self._say(begun)

    def _decided(self, id: str, decide: Callable[[Queued], i.IntentEvent | None]) -> Queued:
        with self._lock:
            word = decide(rules.known(self.get(id), id))
            self._say([word] if word else [])
            return rules.known(self.get(id), id)

    def _say(self, words: Sequence[Event]) -> None:
        if words:
            self._journal.append(words, stream=ids.WORKSPACE)
