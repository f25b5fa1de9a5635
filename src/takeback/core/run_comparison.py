"""Two runs at the same task, compared by what they did or intended.

Calls are paired by what was called with which arguments, wherever in the run: agents that work in parallel do not
keep an order. What is left is paired by tool, in order: the same call with other arguments. The rest was done by one
of the two alone. Times are told and never count.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from enum import StrEnum
from typing import Any

import msgspec


class Deed(msgspec.Struct, frozen=True):
    """One call of a run."""

    id: str
    tool: str
    arguments: Any
    effect: str
    outcome: str
    step: str = ""
    took_us: int = 0
    intended: bool = False
    """True if it was not made, because the run was a shadow."""
    exactly: Any = None
    """Its arguments in full, if `arguments` is only what may be shown. Not told."""


class RunQuestion(msgspec.Struct, frozen=True):
    """What a run asked a human, or what a rule refused."""

    name: str
    arguments: Any
    answer: str


class RunAccount(msgspec.Struct, frozen=True):
    """What a run did or intended, as its records tell it."""

    run: str
    name: str
    life: str
    deeds: tuple[Deed, ...] = ()
    effects: dict[str, tuple[str, str]] = {}
    """What it changed, by target: the versions before and after."""
    questions: tuple[RunQuestion, ...] = ()
    took_us: int = 0


class PairKind(StrEnum):
    """How a call of one run relates to the other run."""

    SAME = "same"
    MOVED = "same, in another order"
    OUTCOME = "other outcome"
    ARGUMENTS = "other arguments"
    ONLY_FIRST = "only in the first"
    ONLY_SECOND = "only in the second"


ALIKE = (PairKind.SAME, PairKind.MOVED)


class Pair(msgspec.Struct, frozen=True):
    """A call of the first run, the one of the second that corresponds to it, or one of them alone."""

    kind: PairKind
    first: Deed | None = None
    second: Deed | None = None


class EffectPair(msgspec.Struct, frozen=True):
    """A target that the two runs did not leave alike."""

    target: str
    first: tuple[str, str] | None
    second: tuple[str, str] | None


class RunComparison(msgspec.Struct, frozen=True):
    """What two runs did alike, and what not."""

    first: RunAccount
    second: RunAccount
    pairs: tuple[Pair, ...]
    """In the order of the first run, then what only the second did."""
    effects: tuple[EffectPair, ...]
    """The targets that differ."""
    effects_alike: int
    questions: tuple[tuple[str, RunQuestion], ...]
    """The questions of one run alone, each with that run's id."""

    @property
    def is_same(self) -> bool:
        """True if both did or intended the same, with the same effects and questions. Order and time do not count."""
        return all(pair.kind in ALIKE for pair in self.pairs) and not self.effects and not self.questions


def compare(first: RunAccount, second: RunAccount) -> RunComparison:
    """Compare what two runs did."""
    effects = [
        EffectPair(target, first.effects.get(target), second.effects.get(target))
        for target in sorted(first.effects.keys() | second.effects.keys())
    ]
    differing = tuple(one for one in effects if _after(one.first) != _after(one.second))
    here, there = _unshared(first.questions, second.questions, _question)
    return RunComparison(
        first,
        second,
        tuple(_pairs(first.deeds, second.deeds)),
        differing,
        len(effects) - len(differing),
        tuple([(first.run, one) for one in here] + [(second.run, one) for one in there]),
    )


def relative_to(value: Any, roots: Sequence[str]) -> Any:
    """Return arguments with the folder of a run, or of its view, replaced by a dot: the same file elsewhere."""
    if isinstance(value, str):
        for root in sorted((root for root in roots if root), key=len, reverse=True):
            if value == root:
                return "."
            value = value.replace(f"{root.rstrip('/')}/", "./")
        return value
    if isinstance(value, dict):
        return {key: relative_to(item, roots) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [relative_to(item, roots) for item in value]
    return value


def _after(versions: tuple[str, str] | None) -> str | None:
    """Return what a run left: a run that began later may have begun with something else."""
    return versions[1] if versions else None


def _pairs(first: Sequence[Deed], second: Sequence[Deed]) -> Iterable[Pair]:
    partner: dict[int, int] = {}
    _join(first, second, partner, _exactly)
    moved = _out_of_order(partner)
    alike = set(partner)
    _join(first, second, partner, lambda deed: deed.tool)
    for at, deed in enumerate(first):
        if at not in partner:
            yield Pair(PairKind.ONLY_FIRST, deed)
            continue
        other = second[partner[at]]
        if at not in alike:
            kind = PairKind.ARGUMENTS
        elif deed.outcome != other.outcome:
            kind = PairKind.OUTCOME
        else:
            kind = PairKind.MOVED if at in moved else PairKind.SAME
        yield Pair(kind, deed, other)
    taken = set(partner.values())
    yield from (Pair(PairKind.ONLY_SECOND, second=deed) for at, deed in enumerate(second) if at not in taken)


def _exactly(deed: Deed) -> Hashable:
    return deed.tool, _encoded(deed.arguments if deed.exactly is None else deed.exactly)


def _question(one: RunQuestion) -> Hashable:
    return one.name, _encoded(one.arguments), one.answer


def _encoded(arguments: Any) -> bytes:
    return msgspec.json.encode(arguments, order="sorted", enc_hook=repr)


def _join(
    first: Sequence[Deed], second: Sequence[Deed], partner: dict[int, int], key: Callable[[Deed], Hashable]
) -> None:
    """Pair what has the same key and no partner yet, the n-th with the n-th."""
    taken = set(partner.values())
    waiting: dict[Hashable, list[int]] = defaultdict(list)
    for at in reversed(range(len(second))):
        if at not in taken:
            waiting[key(second[at])].append(at)
    for at, deed in enumerate(first):
        if at not in partner and (found := waiting.get(key(deed))):
            partner[at] = found.pop()


def _out_of_order(partner: dict[int, int]) -> set[int]:
    """Return those that are not on a longest rising sequence: as few as possible count as moved."""
    tails: list[int] = []
    ends: list[int] = []
    before: dict[int, int | None] = {}
    for at, other in partner.items():  # in the order of the first run
        place = bisect_left(tails, other)
        before[at] = ends[place - 1] if place else None
        if place == len(tails):
            tails.append(other)
            ends.append(at)
        else:
            tails[place], ends[place] = other, at
    kept: set[int] = set()
    last = ends[-1] if ends else None
    while last is not None:
        kept.add(last)
        last = before[last]
    return set(partner) - kept


def _unshared(
    first: Sequence[RunQuestion], second: Sequence[RunQuestion], key: Callable[[RunQuestion], Hashable]
) -> tuple[list[RunQuestion], list[RunQuestion]]:
    """Return what is in one of two lists alone, however often."""
    counts: dict[Hashable, int] = defaultdict(int)
    for one in second:
        counts[key(one)] += 1
    here = []
    for one in first:
        if counts[key(one)]:
            counts[key(one)] -= 1
        else:
            here.append(one)
    there = []
    for one in reversed(second):
        if counts[key(one)]:
            counts[key(one)] -= 1
            there.append(one)
    return here, there[::-1]
