"""The outbox in the journal's own database: an intent and the event that makes it are one transaction.

What changes the life of an intent is an event, and the journal's append lets the table follow. What only a queue
needs (claims, leases, the begin of an attempt) changes the table alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import apsw
import msgspec

from takeback.core import ids
from takeback.core import intents as i
from takeback.core.events import Event
from takeback.core.intents import AttemptOutcome, IntentState, Queued
from takeback.core.record import Record
from takeback.storage.journal import outbox_rules as rules
from takeback.storage.journal.sqlite import outbox_table as rows
from takeback.system.clock import boot_clock

if TYPE_CHECKING:
    from takeback.storage.journal.sqlite.journal import SqliteJournal

LAPSED_MAX = 1000


class SqliteOutbox:
    """The intents of a journal: `takeback.ports.Outbox`."""

    def __init__(self, journal: SqliteJournal, now_us: Callable[[], int]) -> None:
        self._journal = journal
        self._now_us = now_us

    def claim(self, owner: str, limit: int, lease_s: float, *, run: str = "") -> Sequence[Queued]:
        claimed: list[Queued] = []
        with self._journal.lock, self._journal.using() as db:
            # Whoever has nothing to do does not write, and so keeps nobody from writing.
            if not rows.is_work(db, self._now_us(), boot_clock()):
                return claimed

        def take(db: apsw.Connection) -> list[Event]:
            now, now_us = boot_clock(), self._now_us()
            words = self._given_up(db, rows.lapsed(db, now, LAPSED_MAX))
            found = rows.due(db, now_us, limit, run)
            rows.claim(db, found, owner, now, int(lease_s * 1e6))
            claimed[:] = rows.many(db, found, now)
            return words

        # Durable, since what is begun under it may be in the world after a power cut.
        self._journal.decide(take)
        return claimed

    def start(self, queued: Sequence[Queued], *, begun: bool = True) -> frozenset[str]:
        return self._mine(queued, lambda db, one: rows.start(db, one, begun=begun))

    def renew(self, queued: Sequence[Queued], lease_s: float) -> frozenset[str]:
        now = boot_clock()
        return self._mine(queued, lambda db, one: rows.renew(db, one, now, int(lease_s * 1e6)))

    def settle(self, outcomes: Sequence[AttemptOutcome]) -> frozenset[str]:
        settled: list[str] = []

        def write(db: apsw.Connection) -> list[Event]:
            held = [one for one in rules.once(outcomes) if rows.is_mine(db, one.queued)]
            for outcome in held:
                if outcome.result is not None:
                    rows.keep_result(db, outcome.queued.id, msgspec.json.encode(outcome.result))
            settled[:] = [outcome.queued.id for outcome in held]
            return [outcome.word for outcome in held]

        self._journal.decide(write)
        return frozenset(settled)

    def free(self, owner: str) -> int:
        freed: list[Queued] = []

        def give_up(db: apsw.Connection) -> list[Event]:
            freed[:] = rows.of_owner(db, owner, boot_clock())
            return self._given_up(db, freed)

        self._journal.decide(give_up)
        return len(freed)

    def cancel(self, id: str, rollback: str = "") -> Queued:
        return self._decided(id, lambda queued: rules.cancelled(queued, rollback))

    def revive(self, id: str, actor: str = "") -> Queued:
        return self._decided(id, lambda queued: rules.revived(queued, actor))

    def drop(self, id: str, actor: str = "", why: str = "") -> Queued:
        return self._decided(id, lambda queued: rules.dropped(queued, actor, why))

    def get(self, id: str) -> Queued | None:
        with self._journal.lock, self._journal.using() as db:
            return rows.one(db, ids.seq_of(id), boot_clock())

    def page(
        self,
        states: Sequence[IntentState] = tuple(IntentState),
        *,
        after: str = "",
        limit: int = 100,
        run: str = "",
    ) -> Sequence[Queued]:
        with self._journal.lock, self._journal.using() as db:
            names = [state.value for state in states]
            return rows.page(db, names, ids.seq_of(after) if after else 0, limit, run, boot_clock())

    def attempts(self, id: str) -> Sequence[Record]:
        with self._journal.lock, self._journal.using() as db:
            return rows.attempts(db, ids.seq_of(id))

    def counts(self) -> dict[IntentState, int]:
        with self._journal.lock, self._journal.using() as db:
            return rows.counts(db)

    def next_due_us(self) -> int:
        with self._journal.lock, self._journal.using() as db:
            return rows.next_due_us(db)

    def owners(self) -> Sequence[str]:
        with self._journal.lock, self._journal.using() as db:
            return rows.owners(db)

    def _given_up(self, db: apsw.Connection, claims: Sequence[Queued]) -> list[Event]:
        """What is to be said of claims whose owner is gone. What was not begun is just due again."""
        words: list[Event] = []
        for queued in claims:
            if queued.begun:
                words.append(rules.given_up(queued, self._now_us()))
            else:
                rows.let_go(db, queued)
        return words

    def _mine(
        self, queued: Sequence[Queued], do: Callable[[apsw.Connection, Queued], None]
    ) -> frozenset[str]:
        mine: list[str] = []

        def write(db: apsw.Connection) -> list[Event]:
            held = [one for one in queued if rows.is_mine(db, one)]
            for one in held:
                do(db, one)
            mine[:] = [one.id for one in held]
            return []

        # It survives the end of this process, which is what a later look relies on.
        self._journal.decide(write, durable=False)
        return frozenset(mine)

    def _decided(self, id: str, decide: Callable[[Queued], i.IntentEvent | None]) -> Queued:
        """One intent, after whatever its state allows was done to it."""

        def write(db: apsw.Connection) -> list[Event]:
            queued = rows.one(db, ids.seq_of(id), boot_clock())
            word = decide(rules.known(queued, id))
            return [word] if word else []

        self._journal.decide(write)
        return rules.known(self.get(id), id)
