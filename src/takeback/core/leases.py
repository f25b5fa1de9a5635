"""Leases: time-bound rights to a name or a path, each with a number that only rises. Rules only; a store keeps them.

A name is text with slashes, as a path from the top of the workspace is: the lease of a folder covers what lies below
it, and a word that is no path is just a name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec

from takeback.core import ids
from takeback.core.events import Process

EVERYTHING = "."
RESERVED = "/takeback:"
"""What Takeback itself holds begins so. No path of the workspace does, and people are not shown it."""


class Holder(msgspec.Struct, frozen=True):
    """Who has a lease, or waits for one."""

    run: str = ""
    """Empty for a human at a terminal."""
    actor: str = ""
    process: Process | None = None
    thread: str = ""
    """Which thread of it, where a run waits in one and works in others."""
    bound: bool = True
    """Whether the end of the process is the end of the lease. If not, only its time is."""

    @property
    def node(self) -> tuple[str, str]:
        """What can wait for only one thing at a time."""
        return self.run, self.thread or ("" if self.run or not self.process else str(self.process.pid))


class Lease(msgspec.Struct, frozen=True):
    """A lease as it stands now."""

    fence: int
    """Higher than that of every lease before it, of whatever name."""
    name: str
    holder: Holder
    since_us: int
    ttl_us: int
    left_us: int
    """How long it lasts unless it is renewed, by a clock that nobody sets. Not above zero: it has run out."""
    ended: tuple[Lease, ...] = ()
    """Of a lease that was just taken: those of others that had run out, and that ended with it."""

    @property
    def is_live(self) -> bool:
        return self.left_us > 0


class Wait(msgspec.Struct, frozen=True):
    """Somebody who waits for a name."""

    token: str
    name: str
    holder: Holder
    family: frozenset[str]
    """The runs inside of which it waits: what they hold does not stand in its way."""
    left_us: int


class Blocked(msgspec.Struct, frozen=True):
    """A name that is not free."""

    by: tuple[Lease, ...]
    cycle: tuple[Wait, ...] = ()
    """Those who wait for each other, where that is so and the one who asks is the youngest of them."""


def covers(lease: str, path: str) -> bool:
    """Whether who has the lease of one name has that of the other too."""
    if lease == EVERYTHING:
        return not path.startswith("/")
    return path == lease or path.startswith(f"{lease.rstrip('/')}/")


def overlap(one: str, other: str) -> bool:
    return covers(one, other) or covers(other, one)


def in_the_way(leases: Sequence[Lease], name: str, family: Collection[str]) -> list[Lease]:
    """Those, whether they have run out or not, with which nobody outside of the family may have this name."""
    return [
        lease
        for lease in leases
        if overlap(lease.name, name) and not (lease.holder.run and lease.holder.run in family)
    ]


def decide(leases: Sequence[Lease], waits: Sequence[Wait], wanted: Wait) -> list[Lease] | Blocked:
    """Whether a name can be had: those leases of it that have run out, and end now; or who has it."""
    found = in_the_way(leases, wanted.name, wanted.family)
    if by := tuple(lease for lease in found if lease.is_live):
        others = [wait for wait in waits if wait.token != wanted.token and wait.left_us > 0]
        round_ = _cycle(leases, others, wanted, wanted, ())
        is_mine = bool(round_) and max(round_, key=_age) is wanted
        return Blocked(by, round_ if is_mine else ())
    return found


def stale(leases: Sequence[Lease]) -> list[Lease]:
    """What nobody renews any more, although nobody wants it either."""
    return [lease for lease in leases if not lease.is_live and not lease.holder.bound]


def _cycle(
    leases: Sequence[Lease], waits: Sequence[Wait], first: Wait, last: Wait, seen: tuple[Wait, ...]
) -> tuple[Wait, ...]:
    """A way from one who waits, over those who are waited for, back to the first."""
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
    """The higher, the younger: by when its run began. A human is older than every run."""
    return (ids.seq_of(wait.holder.run) if wait.holder.run else 0), wait.token
