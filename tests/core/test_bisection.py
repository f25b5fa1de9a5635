"""The search for the first failing state: always right, never with more trials than promised."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from takeback.core.bisection import Narrowed, Trial, narrowed, next_trial, trials_left


def search(count: int, trial: Callable[[int], Trial]) -> tuple[Narrowed, list[int]]:
    """Search as a program does; return what is found and the states that were tried."""
    tried: dict[int, Trial] = {}
    promised = trials_left(count, tried)
    skips = 0
    while (n := next_trial(count, tried)) is not None:
        assert n not in tried
        tried[n] = trial(n)
        skips += tried[n] is Trial.SKIPPED
        assert skips or trials_left(count, tried) + len(tried) <= promised
    return narrowed(count, tried), list(tried)


@pytest.mark.parametrize("count", [1, 2, 3, 24])
def test_the_first_that_fails_is_found(count: int) -> None:
    for first in range(count):
        found, tried = search(count, lambda n, first=first: Trial.FAILS if n >= first else Trial.PASSES)
        assert (found.passes, found.fails) == (first - 1, first) and list(found.suspects) == [first]
        assert tried[0] == count - 1, "the last is tried first"
        assert first in tried and (first == 0 or first - 1 in tried), "both sides were seen"
        assert len(tried) <= 1 + (count - 1).bit_length()


def test_two_hundred_calls_take_at_most_nine_trials() -> None:
    for first in range(201):
        _, tried = search(201, lambda n, first=first: Trial.FAILS if n >= first else Trial.PASSES)
        assert len(tried) <= 9


def test_if_the_last_passes_there_is_nothing_to_find() -> None:
    for trial in (Trial.PASSES, Trial.SKIPPED):
        found, tried = search(10, lambda _, trial=trial: trial)
        assert tried == [9] and found.fails == 10


def test_what_cannot_be_tried_stays_a_suspect() -> None:
    cannot = {4, 5}
    found, tried = search(
        10, lambda n: Trial.SKIPPED if n in cannot else Trial.FAILS if n >= 6 else Trial.PASSES
    )
    assert (found.passes, found.fails, list(found.suspects)) == (3, 6, [4, 5, 6]) and not found.left
    assert cannot <= set(tried)
    found, _ = search(3, lambda n: Trial.FAILS if n == 2 else Trial.SKIPPED)
    assert found.passes == -1 and list(found.suspects) == [0, 1, 2]


def test_random_states_end_between_one_that_passes_and_one_that_fails() -> None:
    chance = Random(5)
    for _ in range(300):
        states = [chance.choice(list(Trial)) for _ in range(chance.randint(1, 30))] + [Trial.FAILS]
        found, tried = search(len(states), states.__getitem__)
        assert states[found.fails] is Trial.FAILS and len(set(tried)) == len(tried)
        between = range(found.passes + 1, found.fails)
        assert all(states[n] is Trial.SKIPPED for n in between)
        assert found.passes < 0 or states[found.passes] is Trial.PASSES


def test_a_later_state_that_passes_leads_to_a_later_failure() -> None:
    tried = {9: Trial.FAILS, 4: Trial.FAILS, 3: Trial.PASSES}
    assert next_trial(10, tried) is None and list(narrowed(10, tried).suspects) == [4]
    tried[6] = Trial.PASSES
    assert narrowed(10, tried) == Narrowed(6, 9, (7, 8)) and next_trial(10, tried) == 7
