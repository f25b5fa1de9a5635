"""The rules of leases: time-bound rights to a name or path, each with a rising fence number. A store keeps them.

A name is text with slashes, like a path from the top of the workspace: the lease of a folder covers everything
below it. A name does not have to be a path.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec

from takeback.core import ids
from takeback.core.events import Process

EVERYTHING = "."
RESERVED = "/takeback:"
"""The prefix of Takeback's own leases. No path of the workspace begins with it, and users do not see these leases."""


class Holder(msgspec.Struct, frozen=True):
    """The owner of a lease, or one who waits for it."""

    run: str = ""
    """Empty for a human at a terminal."""
    actor: str = ""
    process: Process | None = None
    thread: str = ""
    """The waiting thread, if a run waits in one thread and works in others."""
    bound: bool = True
    """True if the lease ends with its process; otherwise it ends only when its time runs out."""

    @property
    def node(self) -> tuple[str, str]:
        """The unit that can wait for only one lease at a time: a run, its thread, or a human's process."""
        return self.run, self.thread or ("" if self.run or not self.process else str(self.process.pid))


class Lease(msgspec.Struct, frozen=True):
    """A lease at one moment."""

    fence: int
    """Higher than the fence of every earlier lease, whatever its name."""
    name: str
    holder: Holder
    since_us: int
    ttl_us: int
    left_us: int
    """The time left unless it is renewed, by a monotonic clock. Zero or less: it has expired."""
    ended: tuple[Lease, ...] = ()
    """For a lease that was just taken: the expired leases of others that it ended."""

    @property
    def is_live(self) -> bool:
        return self.left_us > 0


class Wait(msgspec.Struct, frozen=True):
    """A request that waits for a name."""

    token: str
    name: str
    holder: Holder
    family: frozenset[str]
    """The runs that this request is nested in: their leases do not block it."""
    left_us: int


class Blocked(msgspec.Struct, frozen=True):
    """A name that is not free."""

    by: tuple[Lease, ...]
    cycle: tuple[Wait, ...] = ()
    """The requests that wait for each other, if this one is part of a deadlock and the youngest in it."""


def covers(lease: str, path: str) -> bool:
    """Return whether a lease of the first name includes the second."""
    if lease == EVERYTHING:
        return not path.startswith("/")
    return path == lease or path.startswith(f"{lease.rstrip('/')}/")


def overlap(one: str, other: str) -> bool:
    return covers(one, other) or covers(other, one)


def in_the_way(leases: Sequence[Lease], name: str, family: Collection[str]) -> list[Lease]:
    """Return the leases, expired or not, of runs outside the family that conflict with this name."""
    return [
        lease
        for lease in leases
        if overlap(lease.name, name) and not (lease.holder.run and lease.holder.run in family)
    ]


def decide(leases: Sequence[Lease], waits: Sequence[Wait], wanted: Wait) -> list[Lease] | Blocked:
    """Decide whether a name is free. Return the expired leases that end now, or who blocks it."""
    found = in_the_way(leases, wanted.name, wanted.family)
    if by := tuple(lease for lease in found if lease.is_live):
        others = [wait for wait in waits if wait.token != wanted.token and wait.left_us > 0]
        round_ = _cycle(leases, others, wanted, wanted, ())
        is_mine = bool(round_) and max(round_, key=_age) is wanted
        return Blocked(by, round_ if is_mine else ())
    return found


def remaining(ended: Sequence[Lease], wanted: str) -> list[Lease]:
    """Return the ended leases of runs that cover more than what was wanted.

    Their runs may have left something in the rest, and the next holder of the rest has to learn of it.
    """
    return [lease for lease in ended if lease.holder.run and not covers(wanted, lease.name)]


def stale(leases: Sequence[Lease]) -> list[Lease]:
    """Return the expired leases of people that are not bound to a process."""
    return [
        lease for lease in leases if not lease.is_live and not lease.holder.bound and not lease.holder.run
    ]


def _cycle(
    leases: Sequence[Lease], waits: Sequence[Wait], first: Wait, last: Wait, seen: tuple[Wait, ...]
) -> tuple[Wait, ...]:
    """Return a cycle of waits that leads from `last` back to `first`; empty if there is none."""
    chain = (*seen, last)
    for lease in in_the_way(leases, last.name, last.family):
        if not lease.is_live:
            continue
        if seen and lease.holder.node == first.holder.node:
            return chain
        for wait in _waiting(waits, lease.holder):
            if wait not in chain and (found := _cycle(leases, waits, first, wait, chain)):
                return found
    return ()


def _waiting(waits: Sequence[Wait], holder: Holder) -> Iterator[Wait]:
    return (wait for wait in waits if wait.holder.node == holder.node)


def _age(wait: Wait) -> tuple[int, str]:
    """Return a sort key that is higher for a younger run. A human is older than every run."""
    return (ids.seq_of(wait.holder.run) if wait.holder.run else 0), wait.token
