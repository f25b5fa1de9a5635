"""Leases in the journal's own database: so an append can hold, in one transaction, that a lease is still held.

Each backend has a `LeaseTable` with its statements; what they are used for is here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Generic

from takeback.core.events import Event
from takeback.core.leases import Blocked, Holder, Lease, Wait, decide, stale
from takeback.storage.journal.stored_journal import Db, StoredJournal
from takeback.system import crash_points

ACQUIRED = crash_points.crash_point("lease-acquired")
RENEWED = crash_points.crash_point("lease-renewed")
RELEASED = crash_points.crash_point("lease-released")


class LeaseTable(ABC, Generic[Db]):
    """The statements for leases of one backend, each inside of a transaction."""

    @abstractmethod
    def leases(self, db: Db) -> list[Lease]:
        """All of them, oldest first."""

    @abstractmethod
    def waits(self, db: Db) -> list[Wait]:
        """All that are waiting."""

    @abstractmethod
    def take(self, db: Db, wanted: Wait, since_us: int, ttl_us: int) -> int:
        """Add a lease from now on; returns its number, which is higher than that of every one before."""

    @abstractmethod
    def renew(self, db: Db, fences: Collection[int]) -> Collection[int]:
        """Let them last as long again from now on; returns those that are there."""

    @abstractmethod
    def release(self, db: Db, fences: Collection[int]) -> Collection[int]:
        """Remove them; returns those that were there."""

    @abstractmethod
    def held(self, db: Db, fences: Collection[int]) -> Collection[int]:
        """Those of these leases that nobody else has taken."""

    @abstractmethod
    def wait(self, db: Db, wanted: Wait) -> None:
        """Note that somebody waits from now on."""

    @abstractmethod
    def forget(self, db: Db, token: str) -> None:
        """Remove the wait of this token, and those that have run out."""


class StoredLeases(Generic[Db]):
    """The leases beside a journal: `takeback.ports.leases.LeaseStore`."""

    def __init__(self, journal: StoredJournal[Db], table: LeaseTable[Db], now_us: Callable[[], int]) -> None:
        self._journal = journal
        self._table = table
        self._now_us = now_us

    def acquire(
        self,
        name: str,
        holder: Holder,
        ttl_s: float,
        *,
        family: Collection[str] = (),
        token: str = "",
        wait_s: float = 0.0,
    ) -> Lease | Blocked:
        wanted = Wait(token, name, holder, frozenset(family), int(wait_s * 1e6))
        # Whoever waits looks often, and keeps nobody from writing.
        leases, waits = self._journal.ask(lambda db: (self._table.leases(db), self._table.waits(db)))
        known = not token or any(wait.token == token for wait in waits)
        found = decide(leases, waits, wanted)
        if isinstance(found, Blocked) and known and not found.cycle:
            return found
        answer: list[Lease | Blocked] = []

        def take(db: Db) -> list[Event]:
            # A connection was lost, but perhaps not what was done with it.
            if not (answer and isinstance(answer[0], Lease) and self._is_there(db, answer[0])):
                answer[:] = [self._acquire(db, wanted, int(ttl_s * 1e6))]
            return []

        # Durable: else the same number could be given again after a power cut.
        self._journal.decide(take)
        crash_points.reach(ACQUIRED)
        return answer[0]

    def renew(self, fences: Collection[int]) -> frozenset[int]:
        renewed = self._each(lambda db: self._table.renew(db, fences))
        crash_points.reach(RENEWED)
        return renewed

    def release(self, fences: Collection[int]) -> frozenset[int]:
        released = self._each(lambda db: self._table.release(db, fences))
        crash_points.reach(RELEASED)
        return released

    def forget(self, token: str) -> None:
        self._journal.change(lambda db: self._table.forget(db, token))

    def all(self) -> Sequence[Lease]:
        return self._journal.ask(self._table.leases)

    def _acquire(self, db: Db, wanted: Wait, ttl_us: int) -> Lease | Blocked:
        leases = self._table.leases(db)
        found = decide(leases, self._table.waits(db), wanted)
        self._table.forget(db, wanted.token)
        if isinstance(found, Blocked):
            if wanted.token and not found.cycle:
                self._table.wait(db, wanted)
            return found
        if ended := {lease.fence for lease in (*found, *stale(leases))}:
            self._table.release(db, ended)
        since_us = self._now_us()
        fence = self._table.take(db, wanted, since_us, ttl_us)
        return Lease(fence, wanted.name, wanted.holder, since_us, ttl_us, ttl_us, ended=tuple(found))

    def _is_there(self, db: Db, lease: Lease) -> bool:
        told = [(one.fence, one.name, one.holder, one.since_us) for one in self._table.leases(db)]
        return (lease.fence, lease.name, lease.holder, lease.since_us) in told

    def _each(self, work: Callable[[Db], Collection[int]]) -> frozenset[int]:
        found: set[int] = set()

        def write(db: Db) -> list[Event]:
            # What an attempt ended whose answer was lost counts as ended by this one.
            found.update(work(db))
            return []

        # What a power cut undoes here is of another boot, and so has run out.
        self._journal.decide(write, durable=False)
        return frozenset(found)
