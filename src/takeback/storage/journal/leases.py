"""Leases in the journal's own database, so that an append can check a lease in its own transaction.

Each backend has a `LeaseTable` with its statements; the logic is here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Generic

from takeback.core.events import Event
from takeback.core.leases import Blocked, Holder, Lease, Wait, decide, remaining, stale
from takeback.storage.journal.stored_journal import Db, StoredJournal
from takeback.system import crash_points

ACQUIRED = crash_points.crash_point("lease-acquired")
RENEWED = crash_points.crash_point("lease-renewed")
RELEASED = crash_points.crash_point("lease-released")


class LeaseTable(ABC, Generic[Db]):
    """The lease statements of one backend. Each runs inside a transaction."""

    @abstractmethod
    def leases(self, db: Db) -> list[Lease]:
        """Return all leases, oldest first."""

    @abstractmethod
    def waits(self, db: Db) -> list[Wait]:
        """Return all waits."""

    @abstractmethod
    def take(self, db: Db, wanted: Wait, since_us: int, ttl_us: int) -> int:
        """Add a lease that starts now. Return its fence, which is higher than all before it."""

    @abstractmethod
    def renew(self, db: Db, fences: Collection[int]) -> Collection[int]:
        """Extend leases by their full duration from now. Return the fences that exist."""

    @abstractmethod
    def release(self, db: Db, fences: Collection[int]) -> Collection[int]:
        """Remove leases. Return the fences that existed."""

    @abstractmethod
    def held(self, db: Db, fences: Collection[int]) -> Collection[int]:
        """Return the fences whose leases still exist."""

    @abstractmethod
    def wait(self, db: Db, wanted: Wait) -> None:
        """Record a wait that starts now."""

    @abstractmethod
    def forget(self, db: Db, token: str) -> None:
        """Remove the wait with this token, and all expired waits."""


class StoredLeases(Generic[Db]):
    """The leases of a journal: `takeback.ports.leases.LeaseStore`."""

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
        # A waiting caller asks often, so look first without a write transaction, which would block writers.
        leases, waits = self._journal.ask(lambda db: (self._table.leases(db), self._table.waits(db)))
        known = not token or any(wait.token == token for wait in waits)
        found = decide(leases, waits, wanted)
        if isinstance(found, Blocked) and known and not found.cycle:
            return found
        answer: list[Lease | Blocked] = []

        def take(db: Db) -> list[Event]:
            # The connection was lost, but the lease may have been taken before that.
            if not (answer and isinstance(answer[0], Lease) and self._is_there(db, answer[0])):
                answer[:] = [self._acquire(db, wanted, int(ttl_s * 1e6))]
            return []

        # Durable: otherwise the same fence could be used again after a power cut.
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
        for lease in remaining(found, wanted.name):
            # Under a new number, so that its holder has lost it, and with no time left: it keeps nobody off.
            rest = Wait("", lease.name, lease.holder, frozenset(), 0)
            self._table.take(db, rest, lease.since_us, 0)
        since_us = self._now_us()
        fence = self._table.take(db, wanted, since_us, ttl_us)
        return Lease(fence, wanted.name, wanted.holder, since_us, ttl_us, ttl_us, ended=tuple(found))

    def _is_there(self, db: Db, lease: Lease) -> bool:
        found = [(one.fence, one.name, one.holder, one.since_us) for one in self._table.leases(db)]
        return (lease.fence, lease.name, lease.holder, lease.since_us) in found

    def _each(self, work: Callable[[Db], Collection[int]]) -> frozenset[int]:
        found: set[int] = set()

        def write(db: Db) -> list[Event]:
            # If an earlier attempt did it and its answer was lost, that counts as done by this one.
            found.update(work(db))
            return []

        # If a power cut undoes this, the leases are from an earlier boot and so have expired.
        self._journal.decide(write, durable=False)
        return frozenset(found)
