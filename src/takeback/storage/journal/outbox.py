"""The outbox in the journal's own database: an intent and the event that makes it are one transaction.

What changes the life of an intent is an event, and the journal's append lets the table follow. What only a queue
needs (claims, leases, the begin of an attempt) changes the table alone. Each backend has an `OutboxTable` with its
statements; what they are used for, and what may be done to an intent in each of its states, is here.
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
LOST = "the worker that was delivering it ended without a word"


class OutboxTable(ABC, Generic[Db]):
    """The statements of the outbox of one backend, each inside of a transaction."""

    @abstractmethod
    def project(self, db: Db, records: Sequence[Record]) -> None:
        """Let the outbox follow the journal; in the transaction that writes these records."""

    @abstractmethod
    def now_us(self, db: Db) -> int:
        """The time by which intents are due."""

    # Claims

    @abstractmethod
    def is_work(self, db: Db) -> bool:
        """Whether something is due, or a lease has run out."""

    @abstractmethod
    def lapsed(self, db: Db, limit: int) -> list[Queued]:
        """Those whose lease has run out."""

    @abstractmethod
    def claim(self, db: Db, owner: str, limit: int, lease_s: float, run: str) -> list[Queued]:
        """Take what is due, oldest first; with `run` only what that run deferred."""

    @abstractmethod
    def start(self, db: Db, queued: Sequence[Queued], *, begun: bool) -> frozenset[str]:
        """Note whether their attempts have begun; returns those whose claims still hold."""

    @abstractmethod
    def renew(self, db: Db, queued: Sequence[Queued], lease_s: float) -> frozenset[str]:
        """Hold them longer; returns those whose claims still hold."""

    @abstractmethod
    def held_of(self, db: Db, queued: Sequence[Queued]) -> frozenset[str]:
        """Those of these claims that still hold, kept so until the end of the transaction."""

    @abstractmethod
    def let_go(self, db: Db, queued: Queued) -> None:
        """Note that nothing was tried: it is due as before."""

    @abstractmethod
    def keep_results(self, db: Db, results: Mapping[str, bytes]) -> None:
        """Keep what receivers gave, by intent."""

    # Looking

    @abstractmethod
    def one(self, db: Db, id: str, *, held: bool = False) -> Queued | None:
        """One intent; where it is `held`, nobody else changes it until the end of the transaction."""

    @abstractmethod
    def of_owner(self, db: Db, owner: str) -> list[Queued]:
        """All that this owner has claimed."""

    @abstractmethod
    def owners(self, db: Db) -> list[str]:
        """Who holds claims."""

    @abstractmethod
    def page(self, db: Db, states: Sequence[IntentState], after: int, limit: int, run: str) -> list[Queued]:
        """Intents in these states, in order, from behind the event `after` on."""

    @abstractmethod
    def attempts(self, db: Db, id: str) -> list[Record]:
        """The events that tell of its failed attempts, in order."""

    @abstractmethod
    def counts(self, db: Db) -> dict[IntentState, int]:
        """How many intents there are in each state."""

    @abstractmethod
    def next_due_us(self, db: Db) -> int:
        """When the next one is due; 0 where none is."""


class StoredOutbox(Generic[Db]):
    """The intents of a journal: `takeback.ports.outbox.Outbox`."""

    def __init__(self, journal: StoredJournal[Db], table: OutboxTable[Db]) -> None:
        self._journal = journal
        self._table = table

    def claim(self, owner: str, limit: int, lease_s: float, *, run: str = "") -> Sequence[Queued]:
        claimed: list[Queued] = []
        # Whoever has nothing to do does not write, and so keeps nobody from writing.
        if not self._journal.ask(self._table.is_work):
            return claimed

        def take(db: Db) -> list[Event]:
            if claimed and (mine := self._table.held_of(db, claimed)):
                claimed[:] = [one for one in claimed if one.id in mine]
                return []  # a connection was lost, but not what was done with it
            words = self._given_up(db, self._table.lapsed(db, LAPSED_MAX))
            claimed[:] = self._table.claim(db, owner, limit, lease_s, run)
            return words

        # Durable, since what is begun under it may be in the world after a power cut.
        self._journal.decide(take)
        return claimed

    def start(self, queued: Sequence[Queued], *, begun: bool = True) -> frozenset[str]:
        # It survives the end of this process, which is what a later look relies on. Again is the same.
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
        """What is to be said of claims whose owner is gone. What was not begun is just due again."""
        words: list[Event] = []
        now_us = self._table.now_us(db) if claims else 0
        for queued in claims:
            if queued.begun:
                words.append(_attempt_lost(queued, now_us))
            else:
                self._table.let_go(db, queued)
        return words

    def _decided(
        self, id: str, decide: Callable[[Queued], i.IntentEvent | None], *, seated: bool = False
    ) -> Queued:
        """One intent, after whatever its state allows was done to it."""

        def write(db: Db) -> list[Event]:
            word = decide(_known(self._table.one(db, id, held=True), id))
            return [word] if word else []

        self._journal.decide(write, seated=seated)
        return _known(self.get(id), id)


# What may be done to an intent in each of its states


def _known(queued: Queued | None, id: str) -> Queued:
    if queued is None:
        raise UsageError(
            f"there is no {ids.KINDS[ids.INTENT]} {id}", hint="`takeback outbox list` lists them"
        )
    return queued


def _once(outcomes: Iterable[AttemptOutcome]) -> list[AttemptOutcome]:
    """A claim ends once: of several words on it the first counts."""
    first: dict[str, AttemptOutcome] = {}
    for outcome in outcomes:
        first.setdefault(outcome.queued.id, outcome)
    return list(first.values())


def _attempt_lost(queued: Queued, now_us: int) -> i.IntentAttempted | i.IntentDied:
    """An attempt that began and has no end: it counts, so that what kills its worker is not tried for ever."""
    attempt = queued.attempts + 1
    if attempt >= queued.deferred.tries:
        return i.IntentDied(queued.id, attempt, LOST, unsure=True)
    return i.IntentAttempted(queued.id, attempt, LOST, now_us, unsure=True)


def _cancelled(queued: Queued, rollback: str) -> i.IntentCancelled | None:
    """Nothing where it is too late, or is being delivered at this moment."""
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
            hint="`takeback dead list` lists them; `takeback undo` cancels what is not delivered yet",
        )


# What the tables have in common


class Moved(NamedTuple):
    """What an event makes of an intent."""

    state: IntentState
    attempt: int
    unsure: bool
    due_us: int
    failed: bool
    """Whether it tells of an attempt that failed."""


def moved(event: Any) -> Moved:
    """What an event other than a release makes of its intent."""
    return Moved(
        i.AFTER[type(event)],
        getattr(event, "attempt", 0),
        getattr(event, "unsure", False),
        getattr(event, "again_us", 0),
        isinstance(event, i.IntentAttempted | i.IntentDied),
    )


def queued_of(deferred: Stored | Record, state: str, result: bytes | None, **columns: Any) -> Queued:
    """An intent as it is in the table, with the record that made it."""
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
