"""Leases that live as long as their process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence

import msgspec

from takeback.core.leases import Blocked, Holder, Lease, Wait, decide, stale
from takeback.system.clock import BootTime, boot_clock


class InMemoryLeases:
    """The whole contract but durability. `left_us` holds the end of each here, and is told as what is left of it."""

    def __init__(
        self,
        now_us: Callable[[], int],
        lock: threading.RLock,
        clock: Callable[[], BootTime] = boot_clock,
        refuse: Callable[[], None] = lambda: None,
    ) -> None:
        """`refuse` raises where nobody may write any more."""
        self._now_us = now_us
        self._lock = lock
        self._clock = clock
        self._refuse = refuse
        self.last = 0
        self._leases: dict[int, Lease] = {}
        self._waits: dict[str, Wait] = {}

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
        ttl_us = int(ttl_s * 1e6)
        with self._lock:
            self._refuse()
            now, leases = self._clock().us, self.all()
            waits = [msgspec.structs.replace(w, left_us=w.left_us - now) for w in self._waits.values()]
            found = decide(leases, waits, wanted)
            if isinstance(found, Blocked):
                if token and not found.cycle:
                    self._waits[token] = msgspec.structs.replace(wanted, left_us=now + wanted.left_us)
                else:
                    self.forget(token)
                return found
            self.forget(token)
            for lease in (*found, *stale(leases)):
                self._leases.pop(lease.fence, None)
            self.last += 1
            lease = Lease(self.last, name, holder, self._now_us(), ttl_us, ttl_us)
            self._leases[self.last] = msgspec.structs.replace(lease, left_us=now + ttl_us)
            return msgspec.structs.replace(lease, ended=tuple(found))

    def renew(self, fences: Collection[int]) -> frozenset[int]:
        with self._lock:
            self._refuse()
            now, found = self._clock().us, self.held(fences)
            for fence in found:
                lease = self._leases[fence]
                self._leases[fence] = msgspec.structs.replace(lease, left_us=now + lease.ttl_us)
            return found

    def release(self, fences: Collection[int]) -> frozenset[int]:
        with self._lock:
            found = self.held(fences)
            for fence in found:
                del self._leases[fence]
            return found

    def forget(self, token: str) -> None:
        with self._lock:
            self._waits.pop(token, None)

    def all(self) -> Sequence[Lease]:
        with self._lock:
            now = self._clock().us
            return [msgspec.structs.replace(one, left_us=one.left_us - now) for one in self._leases.values()]

    def skip(self, fence: int) -> None:
        """Give no number up to this one."""
        self.last = max(self.last, fence)

    def held(self, fences: Collection[int]) -> frozenset[int]:
        """Those of these that nobody else has taken."""
        with self._lock:
            return frozenset(fences) & self._leases.keys()
