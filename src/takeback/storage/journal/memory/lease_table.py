"""Leases that live as long as their process."""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from takeback.core.leases import Lease, Wait
from takeback.storage.journal.leases import LeaseTable
from takeback.system.clock import boot_clock


class InMemoryLeaseTable(LeaseTable[None]):
    """Leases in a dict. Here `left_us` stores when each one ends; callers get the time left."""

    def __init__(self, refuse: Callable[[], None]) -> None:
        """`refuse` raises an error once the journal is shut."""
        self._refuse = refuse
        self.last = 0
        self._leases: dict[int, Lease] = {}
        self._waits: dict[str, Wait] = {}

    def leases(self, db: None = None) -> list[Lease]:
        now = boot_clock().us
        return [msgspec.structs.replace(one, left_us=one.left_us - now) for one in self._leases.values()]

    def waits(self, db: None = None) -> list[Wait]:
        now = boot_clock().us
        return [msgspec.structs.replace(one, left_us=one.left_us - now) for one in self._waits.values()]

    def take(self, db: None, wanted: Wait, since_us: int, ttl_us: int) -> int:
        self._refuse()
        self.last += 1
        until_us = boot_clock().us + ttl_us
        self._leases[self.last] = Lease(self.last, wanted.name, wanted.holder, since_us, ttl_us, until_us)
        return self.last

    def renew(self, db: None, fences: Collection[int]) -> frozenset[int]:
        self._refuse()
        now, found = boot_clock().us, self.held(db, fences)
        for fence in found:
            lease = self._leases[fence]
            self._leases[fence] = msgspec.structs.replace(lease, left_us=now + lease.ttl_us)
        return found

    def release(self, db: None, fences: Collection[int]) -> frozenset[int]:
        found = self.held(db, fences)
        for fence in found:
            del self._leases[fence]
        return found

    def held(self, db: None, fences: Collection[int]) -> frozenset[int]:
        return frozenset(fences) & self._leases.keys()

    def wait(self, db: None, wanted: Wait) -> None:
        until_us = boot_clock().us + wanted.left_us
        self._waits[wanted.token] = msgspec.structs.replace(wanted, left_us=until_us)

    def forget(self, db: None, token: str) -> None:
        lapsed = {wait.token for wait in self.waits() if wait.left_us <= 0}
        for gone in {token, *lapsed} & self._waits.keys():
            del self._waits[gone]

    def skip(self, fence: int) -> None:
        """Never issue a fence up to this one."""
        self.last = max(self.last, fence)
