"""The outbox in the journal's own database: an intent and the event that defers it are one transaction.

An event records each change in an intent's life, and the append that writes the event also updates the table. What
only the queue needs (claims, leases, the start of an attempt) changes the table alone. Each backend has an
`OutboxTable` with its statements. The logic, and what each state of an intent allows, is here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple

import msgspec

from takeback.core import ids
from takeback.core import intents as i
from takeback.core.events import Event
from takeback.core.intents import AttemptOutcome, IntentState, Queued
from takeback.core.record import Record
from takeback.errors import UsageError
from takeback.ports.relocation import Stored
from takeback.storage.journal.batch import record_of
from takeback.storage.journal.stored_journal import Db, StoredJournal

LAPSED_MAX = 1000
LOST = "the worker that was delivering it ended without reporting a result"


class OutboxTable(ABC, Generic[Db]):
    """The outbox statements of one backend. Each runs inside a transaction."""

    @abstractmethod
    def project(self, db: Db, records: Sequence[Record]) -> None:
        """Update the outbox for these records, in the transaction that writes them."""

    @abstractmethod
    def now_us(self, db: Db) -> int:
        """Return the time by which intents are due."""

    # Claims

    @abstractmethod
    def is_work(self, db: Db) -> bool:
        """Return True if an intent is due or a claim has expired."""

    @abstractmethod
    def lapsed(self, db: Db, limit: int) -> list[Queued]:
        """Return the intents whose claim has expired."""

    @abstractmethod
    def claim(self, db: Db, owner: str, limit: int, lease_s: float, run: str) -> list[Queued]:
        """Claim intents that are due, oldest first; with `run`, only what that run deferred."""

    @abstractmethod
    def start(self, db: Db, queued: Sequence[Queued], *, begun: bool) -> frozenset[str]:
        """Record whether their attempts have begun. Return the intents whose claims still hold."""

    @abstractmethod
    def renew(self, db: Db, queued: Sequence[Queued], lease_s: float) -> frozenset[str]:
        """Extend the claims. Return the intents whose claims still hold."""

    @abstractmethod
    def held_of(self, db: Db, queued: Sequence[Queued]) -> frozenset[str]:
        """Return the intents whose claims still hold, and lock them until the end of the transaction."""

    @abstractmethod
    def requeue(self, db: Db, queued: Queued) -> None:
        """Make an intent due again after a claim under which nothing was attempted."""

    @abstractmethod
    def keep_results(self, db: Db, results: Mapping[str, bytes]) -> None:
        """Store what receivers returned, by intent."""

    # Looking

    @abstractmethod
    def one(self, db: Db, id: str, *, held: bool = False) -> Queued | None:
        """Return one intent; with `held`, lock it against changes until the end of the transaction."""

    @abstractmethod
    def of_owner(self, db: Db, owner: str) -> list[Queued]:
        """Return all intents that this owner has claimed."""

    @abstractmethod
    def owners(self, db: Db) -> list[str]:
        """Return the owners of claims."""

    @abstractmethod
    def page(self, db: Db, states: Sequence[IntentState], after: int, limit: int, run: str) -> list[Queued]:
        """Return intents in these states, in order, after event `after`."""

    @abstractmethod
    def attempts(self, db: Db, id: str) -> list[Record]:
        """Return the events that record its failed attempts, in order."""

    @abstractmethod
    def counts(self, db: Db) -> dict[IntentState, int]:
        """Return the number of intents in each state."""

    @abstractmethod
    def next_due_us(self, db: Db) -> int:
        """Return the time when the next intent is due; 0 if there is none."""


class StoredOutbox(Generic[Db]):
    """The intents of a journal: `takeback.ports.outbox.Outbox`."""

    def __init__(self, journal: StoredJournal[Db], table: OutboxTable[Db]) -> None:
        self._journal = journal
        self._table = table

    def claim(self, owner: str, limit: int, lease_s: float, *, run: str = "") -> Sequence[Queued]:
        claimed: list[Queued] = []
        # With nothing to claim, do not open a write transaction, which would block writers.
        if not self._journal.ask(self._table.is_work):
            return claimed

        def take(db: Db) -> list[Event]:
            if claimed and (mine := self._table.held_of(db, claimed)):
                claimed[:] = [one for one in claimed if one.id in mine]
                return []  # the connection was lost, but the claim was made
            events = self._given_up(db, self._table.lapsed(db, LAPSED_MAX))
            claimed[:] = self._table.claim(db, owner, limit, lease_s, run)
            return events

        # Durable, since an attempt begun under this claim may have effects that survive a power cut.
        self._journal.decide(take)
        return claimed

    def start(self, queued: Sequence[Queued], *, begun: bool = True) -> frozenset[str]:
        # It survives the end of this process, which later checks rely on. Repeating it is harmless.
        return self._journal.change(lambda db: self._table.start(db, queued, begun=begun))

    def renew(self, queued: Sequence[Queued], lease_s: float) -> frozenset[str]:
        return self._journal.change(lambda db: self._table.renew(db, queued, lease_s))

    def settle(self, outcomes: Sequence[AttemptOutcome]) -> frozenset[str]:
        settled: list[str] = []

        def write(db: Db) -> list[Event]:
            first = _once(outcomes)
            mine = self._table.held_of(db, [one.queued for one in first])
            held = [one for one in first if one.queued.id in mine]
            results = {
                one.queued.id: msgspec.json.encode(one.result) for one in held if one.result is not None
            }
            if results:
                self._table.keep_results(db, results)
            settled[:] = [outcome.queued.id for outcome in held]
            return [outcome.word for outcome in held]

        self._journal.decide(write)
        return frozenset(settled)

    def free(self, owner: str) -> int:
        freed: list[Queued] = []

        def give_up(db: Db) -> list[Event]:
            found = self._table.of_owner(db, owner)
            freed.extend(found)
            return self._given_up(db, found)

        self._journal.decide(give_up)
        return len({one.id for one in freed})

    def cancel(self, id: str, rollback: str = "") -> Queued:
        return self._decided(id, lambda queued: _cancelled(queued, rollback), seated=True)

    def revive(self, id: str, actor: str = "") -> Queued:
        return self._decided(id, lambda queued: _revived(queued, actor))

    def drop(self, id: str, actor: str = "", why: str = "") -> Queued:
        return self._decided(id, lambda queued: _dropped(queued, actor, why))

    def get(self, id: str) -> Queued | None:
        return self._journal.ask(lambda db: self._table.one(db, id))

    def page(
        self,
        states: Sequence[IntentState] = tuple(IntentState),
        *,
        after: str = "",
        limit: int = 100,
        run: str = "",
    ) -> Sequence[Queued]:
        behind = ids.seq_of(after) if after else 0
        return self._journal.ask(lambda db: self._table.page(db, states, behind, limit, run))

    def attempts(self, id: str) -> Sequence[Record]:
        return self._journal.ask(lambda db: self._table.attempts(db, id))

    def counts(self) -> dict[IntentState, int]:
        return self._journal.ask(self._table.counts)

    def next_due_us(self) -> int:
        return self._journal.ask(self._table.next_due_us)

    def owners(self) -> Sequence[str]:
        return self._journal.ask(self._table.owners)

    def _given_up(self, db: Db, claims: Sequence[Queued]) -> list[Event]:
        """Return the events for claims whose owner is gone. An intent that was not begun is simply due again."""
        events: list[Event] = []
        now_us = self._table.now_us(db) if claims else 0
        for queued in claims:
            if queued.begun:
                events.append(_attempt_lost(queued, now_us))
            else:
                self._table.requeue(db, queued)
        return events

    def _decided(
        self, id: str, decide: Callable[[Queued], i.IntentEvent | None], *, seated: bool = False
    ) -> Queued:
        """Apply `decide` to one intent, and return the intent as it is afterwards."""

        def write(db: Db) -> list[Event]:
            event = decide(_known(self._table.one(db, id, held=True), id))
            return [event] if event else []

        self._journal.decide(write, seated=seated)
        return _known(self.get(id), id)


# What may be done to an intent in each of its states


def _known(queued: Queued | None, id: str) -> Queued:
    if queued is None:
        raise UsageError(
            f"there is no {ids.KINDS[ids.INTENT]} {id}", hint="`takeback outbox list` lists all of them"
        )
    return queued


def _once(outcomes: Iterable[AttemptOutcome]) -> list[AttemptOutcome]:
    """Return the first outcome for each claim: a claim ends only once."""
    first: dict[str, AttemptOutcome] = {}
    for outcome in outcomes:
        first.setdefault(outcome.queued.id, outcome)
    return list(first.values())


def _attempt_lost(queued: Queued, now_us: int) -> i.IntentAttempted | i.IntentDied:
    """Return the event for an attempt without a known end.

    It counts, so that an intent that kills its worker is not retried for ever.
    """
    attempt = queued.attempts + 1
    if attempt >= queued.deferred.tries:
        return i.IntentDied(queued.id, attempt, LOST, unsure=True)
    return i.IntentAttempted(queued.id, attempt, LOST, now_us, unsure=True)


def _cancelled(queued: Queued, rollback: str) -> i.IntentCancelled | None:
    """Return None if it is too late, or the intent is being delivered right now."""
    if queued.state in (IntentState.DELIVERED, IntentState.CANCELLED, IntentState.DROPPED) or queued.busy:
        return None
    begun = queued.state is IntentState.CLAIMED and queued.begun
    return i.IntentCancelled(queued.id, rollback, unsure=queued.unsure or begun)


def _revived(queued: Queued, actor: str) -> i.IntentRevived:
    _refuse_living(queued)
    return i.IntentRevived(queued.id, actor)


def _dropped(queued: Queued, actor: str, why: str) -> i.IntentDropped:
    _refuse_living(queued)
    return i.IntentDropped(queued.id, actor, why)


def _refuse_living(queued: Queued) -> None:
    if queued.state is not IntentState.DEAD:
        raise UsageError(
            f"{queued.id} is {queued.state}, not a dead letter; nothing was changed",
            hint="`takeback dead list` lists dead letters; `takeback undo` cancels what is not delivered yet",
        )


# What the tables have in common


class Moved(NamedTuple):
    """The state of an intent after an event."""

    state: IntentState
    attempt: int
    unsure: bool
    due_us: int
    failed: bool
    """Whether the event records a failed attempt."""


def moved(event: Any) -> Moved:
    """Return the state of an intent after an event other than a release."""
    return Moved(
        i.AFTER[type(event)],
        getattr(event, "attempt", 0),
        getattr(event, "unsure", False),
        getattr(event, "again_us", 0),
        isinstance(event, i.IntentAttempted | i.IntentDied),
    )


def queued_of(deferred: Stored | Record, state: str, result: bytes | None, **columns: Any) -> Queued:
    """Return an intent as it is in the table, with the record that deferred it."""
    record = deferred if isinstance(deferred, Record) else record_of(deferred)
    assert isinstance(record.event, i.IntentDeferred)
    return Queued(
        record.id,
        record.stream,
        record.event,
        record.at_us,
        IntentState(state),
        result=msgspec.json.decode(result) if result else None,
        **columns,
    )
