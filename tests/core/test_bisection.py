"""The search for the first failing state: always right, never with more trials than promised."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from takeback.core.bisection import BisectTrial, Narrowed, narrowed, next_trial, trials_left


def search(count: int, trial: Callable[[int], BisectTrial]) -> tuple[Narrowed, list[int]]:
    """Search as a program does; return what is found and the states that were tried."""
    tried: dict[int, BisectTrial] = {}
    promised = trials_left(count, tried)
    skips = 0
    while (n := next_trial(count, tried)) is not None:
        assert n not in tried
        tried[n] = trial(n)
        skips += tried[n] is BisectTrial.SKIPPED
        assert skips or trials_left(count, tried) + len(tried) <= promised
    return narrowed(count, tried), list(tried)


def broken_from(first: int) -> Callable[[int], BisectTrial]:
    return lambda n: BisectTrial.FAILS if n >= first else BisectTrial.PASSES


@pytest.mark.parametrize("count", [1, 2, 3, 24])
def test_the_first_that_fails_is_found(count: int) -> None:
    for first in range(count):
        found, tried = search(count, broken_from(first))
        assert (found.passes, found.fails) == (first - 1, first) and list(found.suspects) == [first]
        assert tried[0] == count - 1, "the last is tried first"
        assert first in tried and (first == 0 or first - 1 in tried), "both sides were seen"
        assert len(tried) <= 1 + (count - 1).bit_length()


def test_two_hundred_calls_take_at_most_nine_trials() -> None:
    for first in range(201):
        _, tried = search(201, broken_from(first))
        assert len(tried) <= 9


def test_if_the_last_passes_there_is_nothing_to_find() -> None:
    for trial in (BisectTrial.PASSES, BisectTrial.SKIPPED):
        found, tried = search(10, ([trial] * 10).__getitem__)
        assert tried == [9] and found.fails == 10


def test_what_cannot_be_tried_stays_a_suspect() -> None:
    cannot = {4, 5}
    found, tried = search(
        10,
        lambda n: BisectTrial.SKIPPED if n in cannot else BisectTrial.FAILS if n >= 6 else BisectTrial.PASSES,
    )
    assert (found.passes, found.fails, list(found.suspects)) == (3, 6, [4, 5, 6]) and not found.left
    assert cannot <= set(tried)
    found, _ = search(3, lambda n: BisectTrial.FAILS if n == 2 else BisectTrial.SKIPPED)
    assert found.passes == -1 and list(found.suspects) == [0, 1, 2]


def test_random_states_end_between_one_that_passes_and_one_that_fails() -> None:
    chance = Random(5)
    for _ in range(300):
        states = [chance.choice(list(BisectTrial)) for _ in range(chance.randint(1, 30))] + [
            BisectTrial.FAILS
        ]
        found, tried = search(len(states), states.__getitem__)
        assert states[found.fails] is BisectTrial.FAILS and len(set(tried)) == len(tried)
        between = range(found.passes + 1, found.fails)
        assert all(states[n] is BisectTrial.SKIPPED for n in between)
        assert found.passes < 0 or states[found.passes] is BisectTrial.PASSES


def test_a_later_state_that_passes_leads_to_a_later_failure() -> None:
    tried = {9: BisectTrial.FAILS, 4: BisectTrial.FAILS, 3: BisectTrial.PASSES}
    assert next_trial(10, tried) is None and list(narrowed(10, tried).suspects) == [4]
    tried[6] = BisectTrial.PASSES
    assert narrowed(10, tried) == Narrowed(6, 9, (7, 8)) and next_trial(10, tried) == 7
