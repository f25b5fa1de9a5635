"""What runs remember. Here the journal itself is the world: a value is what the last recorded change made of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from takeback.core.change import Change, Entry, Target, Version
from takeback.core.events import Did, Mark
from takeback.core.memory import RESOURCE, value_of, version
from takeback.core.rollback import Do
from takeback.ports.resource import Latest, Swap, Swapped, Traits


class MemoryResource:
    """Values by run and path."""

    name = RESOURCE
    traits = Traits()

    def __init__(self, latest: Latest, timeline: Callable[[Target], Sequence[Entry]]) -> None:
        self._latest = latest
        self._timeline = timeline

    def seen(self, targets: Iterable[Target]) -> Mapping[Target, Version]:
        return {target: self._latest(target) for target in targets}

    def merge(self, mine: Version, base: Version, goal: Version) -> Version | str:
        return "values in memory are not merged"

    def tell(self, change: Change, *, back: bool) -> str:
        return ""

    def foresee(self, swaps: Sequence[Swap], kept: Collection[Target]) -> Mapping[Target, tuple[Do, str]]:
        return {}

    def swap(
        self, swaps: Sequence[Swap], rollback: str, *, fresh: bool, since: Mark | None = None
    ) -> Sequence[Swapped]:
        # The rollback's record of its changes is the write.
        return [self._swap(swap) for swap in swaps]

    def _swap(self, swap: Swap) -> Swapped:
        now = self._latest(swap.target)
        if now != swap.present and now != swap.goal:
            return Swapped(
                swap.target, Did.CONFLICT, now, verified=True, why="it was changed by another action"
            )
        if not swap.goal:
            return Swapped(swap.target, Did.REMOVED, swap.goal, verified=True)
        # A rollback's record includes the value, however its history is recorded.
        try:
            goal = version(value_of(swap.goal, self._timeline(swap.target)))
        except (KeyError, TypeError):
            goal = now
        if goal != swap.goal:
            why = "its value cannot be recomputed from the journal"
            return Swapped(swap.target, Did.FAILED, now, verified=False, why=why)
        return Swapped(swap.target, Did.RESTORED, goal, verified=True)
