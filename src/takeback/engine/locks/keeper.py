"""Renewing leases while their holder lives: one thread for all leases of a process."""

from __future__ import annotations

import threading

from takeback.errors import TakebackError
from takeback.ports.leases import Renewing

PART = 3
"""How often a lease is renewed within its time to live: two renewals may fail."""


class LeaseKeeper:
    """A background thread that renews leases, or the seat of a workspace."""

    def __init__(self, store: Renewing) -> None:
        self._store = store
        self._kept: dict[int, float] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def keep(self, fence: int, ttl_us: int) -> None:
        with self._changed:
            self._kept[fence] = ttl_us / 1e6
            self._changed.notify()
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._renew, name="takeback-leases", daemon=True)
                self._thread.start()

    def leave(self, fence: int) -> None:
        with self._changed:
            self._kept.pop(fence, None)
            self._changed.notify()

    def _renew(self) -> None:
        while True:
            with self._changed:
                # Woken where one was added, which may be shorter, or was left: then it is looked at again.
                if self._kept and self._changed.wait(min(self._kept.values()) / PART):
                    continue
                if not self._kept:
                    self._thread = None
                    return
                fences = list(self._kept)
            try:
                held = self._store.renew(fences)
            except TakebackError:
                continue  # the next try may succeed; if not, the next write under the lease is refused
            with self._changed:
                for fence in fences:
                    if fence not in held:
                        self._kept.pop(fence, None)
