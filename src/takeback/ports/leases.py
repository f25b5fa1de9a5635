"""The port of leases: the right to work on something for a while. The contract is in `takeback.testing`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from takeback.core.leases import Blocked, Holder, Lease


class Renewing(Protocol):
    """Something that is held for a limited time and can be renewed."""

    def renew(self, fences: Collection[int]) -> frozenset[int]:
        """Renew them for their full time from now on. Return those that are still held.

        One that had expired and was not taken by another is held again.
        """


class LeaseStore(Renewing, Protocol):
    """The leases of a workspace. Each operation is one transaction; any number of processes may work at once.

    Time is measured by a clock that cannot be set: the machine's since its boot, or the database's own. The fence of
    a lease is higher than that of every earlier lease, even after a power cut.
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
        """Acquire the lease of this name, if no one outside the family holds it, a name above it, or one below it.

        An expired lease does not block, and ends when another takes its name: its holder has lost it, and the new
        holder finds it in `ended`. If a run held it and only a part of its name is taken, it stays listed, expired
        and under a new number, so that the next holder of another part finds it too. With a `token` the caller is
        registered as waiting for `wait_s`, and gets a `cycle` if waiting would be a deadlock: of those who wait for
        each other, the youngest does. Durable when this returns.
        """

    def release(self, fences: Collection[int]) -> frozenset[int]:
        """End them. Return those that were held."""

    def forget(self, token: str) -> None:
        """Remove the caller with this token from those who wait."""

    def all(self) -> Sequence[Lease]:
        """Return all leases, oldest first, including expired ones that no one has taken."""
