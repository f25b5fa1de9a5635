"""The search for the first of many states that fails, with as few trials as possible.

The states are numbered from 0, the one that is said to pass, to the last, which is said to fail. The last is tried
first, because without its failure there is nothing to find. The first is tried only if the search comes down to it:
what is found always stands between a state that was seen to pass and one that was seen to fail. Where it broke more
than once, that is one of the times; a state that passes later leads to a later one.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec


class BisectTrial(StrEnum):
    """What came of trying a state."""

    PASSES = "ok"
    FAILS = "fails"
    SKIPPED = "skipped"
    """It could not be tried, which says nothing about it."""


class Narrowed(msgspec.Struct, frozen=True):
    """What the trials so far say."""

    passes: int
    """The last state that is known to pass; -1 if none is."""
    fails: int
    """The first state after it that is known to fail; the number of states if none is."""
    left: tuple[int, ...]
    """The states in between that were not tried yet."""

    @property
    def suspects(self) -> range:
        """The states of which one is the first that fails: more than one if some could not be tried."""
        return range(self.passes + 1, self.fails + 1)


def narrowed(count: int, tried: Mapping[int, BisectTrial]) -> Narrowed:
    """Return what trials of so many states say."""
    passes = max((n for n, trial in tried.items() if trial is BisectTrial.PASSES), default=-1)
    fails = min((n for n, trial in tried.items() if trial is BisectTrial.FAILS and n > passes), default=count)
    return Narrowed(passes, fails, tuple(n for n in range(passes + 1, fails) if n not in tried))


def next_trial(count: int, tried: Mapping[int, BisectTrial]) -> int | None:
    """Return the state to try next; None if no further trial says more."""
    last = count - 1
    if last not in tried:
        return last
    if tried[last] is not BisectTrial.FAILS:
        return None
    found = narrowed(count, tried)
    middle = (found.passes + found.fails) // 2
    return min(found.left, key=lambda n: abs(n - middle), default=None)


def trials_left(count: int, tried: Mapping[int, BisectTrial]) -> int:
    """Return how many more trials it takes at most, if none is skipped."""
    found = narrowed(count, tried)
    return len(found.left).bit_length() + (count - 1 not in tried)
