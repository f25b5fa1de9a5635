"""The port of leases: who may work on what, for how long. The contract is in `takeback.testing`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from takeback.core.leases import Blocked, Holder, Lease


class Renewing(Protocol):
    """Whatever is held for a while, and may be held longer."""

    def renew(self, fences: Collection[int]) -> frozenset[int]:
        """Let them last as long again from now on; gives those that are still held.

        One that had run out and that nobody has taken is held again.
        """


class LeaseStore(Renewing, Protocol):
    """The leases of a workspace. Each operation is one transaction; any number of processes may work at once.

    Time is told by a clock that nobody sets: the machine's since its boot, or the database's own. The fence of a
    lease is higher than that of every lease before it, whatever became of those, also after a power cut.
    """

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
        """The lease of this name, if nobody outside of the family has it, what it is in, or what is in it.

        One that has run out does not count, and ends when another takes its name: whoever had it has lost it, and
        whoever takes it finds it in `ended`. With a `token` the one who asks is known to be waiting for so long, and
        hears if the wait could have no end: of those who wait for each other, the youngest does. Durable when this
        returns.
        """

    def release(self, fences: Collection[int]) -> frozenset[int]:
        """End them; gives those that were held."""

    def forget(self, token: str) -> None:
        """Who asked with this token does not wait any more."""

    def all(self) -> Sequence[Lease]:
        """All that are held, oldest first, also those that have run out and that nobody has taken."""
