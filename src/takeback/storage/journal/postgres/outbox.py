"""The outbox in the journal's own database: an intent and the event that makes it are one transaction.

What changes the life of an intent is an event, and the journal's append lets the table follow. What only a queue
needs (claims, leases, the begin of an attempt) changes the table alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from takeback.core import ids
from takeback.core import intents as i
from takeback.core.events import Event
from takeback.core.intents import AttemptOutcome, IntentState, Queued
from takeback.core.record import Record
from takeback.storage.journal import outbox_rules as rules
from takeback.storage.journal.postgres import outbox_table as rows
from takeback.storage.journal.postgres.session import PostgresSession

if TYPE_CHECKING:
    import psycopg

    Db = psycopg.Connection[tuple[Any, ...]]

LAPSED_MAX = 1000


class Decide(Protocol):
    def __call__(self, work: Callable[[Db], Sequence[Event]], *, seated: bool = False) -> None:
        """Carry this out in a transaction that holds the end of the journal, and append what it gives.

        Where a connection is lost it may be carried out again; what it gave, and what was recorded then, counts
        once. `seated` says that it is only for the place in which the workspace sits: others can deliver, not undo.
        """


class PostgresOutbox:
    """The intents of a journal: `takeback.ports.Outbox`."""

    def __init__(self, session: PostgresSession, decide: Decide) -> None:
        self._session = session
        self._decide = decide

    @property
    def _id(self) -> int:
        return self._session.id

    def claim(self, owner: str, limit: int, lease_s: float, *, run: str = "") -> Sequence[Queued]:
        claimed: list[Queued] = []
        # Whoever has nothing to do does not write, and so keeps nobody from writing.
        if not self._session.ask(lambda db: rows.is_work(db, self._id)):
            return claimed

        def take(db: Db) -> list[Event]:
            if claimed and (mine := rows.held_of(db, self._id, claimed)):
                claimed[:] = [one for one in claimed if one.id in mine]
                return []  # a connection was lost, but not what was done with it
            words = self._given_up(db, rows.lapsed(db, self._id, LAPSED_MAX))
            claimed[:] = rows.claim(db, self._id, owner, limit, lease_s, run)
            return words

        self._decide(take)
        return claimed

    def start(self, queued: Sequence[Queued], *, begun: bool = True) -> frozenset[str]:
        # Durable: a server that forgot it would let an intent be cancelled that is on its way. Again is the same.
        return self._session.ask(lambda db: rows.start(db, self._id, queued, begun=begun))

    def renew(self, queued: Sequence[Queued], lease_s: float) -> frozenset[str]:
        return self._session.ask(lambda db: rows.renew(db, self._id, queued, lease_s))

    def settle(self, outcomes: Sequence[AttemptOutcome]) -> frozenset[str]:
        settled: list[str] = []

        def write(db: Db) -> list[Event]:
            first = rules.once(outcomes)
            mine = rows.held_of(db, self._id, [one.queued for one in first])
            held = [one for one in first if one.queued.id in mine]
            results = {
                one.queued.id: msgspec.json.encode(one.result) for one in held if one.result is not None
            }
            if results:
                rows.keep_results(db, self._id, results)
            settled[:] = [outcome.queued.id for outcome in held]
            return [outcome.word for outcome in held]

        self._decide(write)
        return frozenset(settled)

    def free(self, owner: str) -> int:
        freed: list[Queued] = []

        def give_up(db: Db) -> list[Event]:
            found = rows.of_owner(db, self._id, owner)
            freed.extend(found)
            return self._given_up(db, found)

        self._decide(give_up)
        return len({one.id for one in freed})

    def cancel(self, id: str, rollback: str = "") -> Queued:
        return self._decided(id, lambda queued: rules.cancelled(queued, rollback), seated=True)

    def revive(self, id: str, actor: str = "") -> Queued:
        return self._decided(id, lambda queued: rules.revived(queued, actor))

    def drop(self, id: str, actor: str = "", why: str = "") -> Queued:
        return self._decided(id, lambda queued: rules.dropped(queued, actor, why))

    def get(self, id: str) -> Queued | None:
        return self._session.ask(lambda db: rows.one(db, self._id, id))

    def page(
        self,
        states: Sequence[IntentState] = tuple(IntentState),
        *,
        after: str = "",
        limit: int = 100,
        run: str = "",
    ) -> Sequence[Queued]:
        names, behind = [state.value for state in states], ids.seq_of(after) if after else 0
        return self._session.ask(lambda db: rows.page(db, self._id, names, behind, limit, run))

    def attempts(self, id: str) -> Sequence[Record]:
        return self._session.ask(lambda db: rows.attempts(db, self._id, id))

    def counts(self) -> dict[IntentState, int]:
        return self._session.ask(lambda db: rows.counts(db, self._id))

    def next_due_us(self) -> int:
        return self._session.ask(lambda db: rows.next_due_us(db, self._id))

    def owners(self) -> Sequence[str]:
        return self._session.ask(lambda db: rows.owners(db, self._id))

    def _given_up(self, db: Db, claims: Sequence[Queued]) -> list[Event]:
        """What is to be said of claims whose owner is gone. What was not begun is just due again."""
        words: list[Event] = []
        now_us = rows.now_us(db) if claims else 0
        for queued in claims:
            if queued.begun:
                words.append(rules.given_up(queued, now_us))
            else:
                rows.let_go(db, self._id, queued)
        return words

    def _decided(
        self, id: str, decide: Callable[[Queued], i.IntentEvent | None], *, seated: bool = False
    ) -> Queued:
        """One intent, after whatever its state allows was done to it."""

        def write(db: Db) -> list[Event]:
            word = decide(rules.known(rows.one(db, self._id, id, held=True), id))
            return [word] if word else []

        self._decide(write, seated=seated)
        return rules.known(self.get(id), id)
