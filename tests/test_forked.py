"""Half of the work in a second process: the same result, whatever becomes of that process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from takeback.system import second_process


def double(share: list[int]) -> list[int]:
    return [2 * number for number in share]


def test_both_shares_are_done() -> None:
    assert second_process.both(double, [1, 2], [3], list[int]) == ([2, 4], [6])


def test_the_share_of_a_process_that_dies_is_done_here() -> None:
    here = os.getpid()

    def die_elsewhere(share: list[int]) -> list[int]:
        if os.getpid() != here:
            os._exit(9)
        return double(share)

    assert second_process.both(die_elsewhere, [1], [2], list[int]) == ([2], [4])


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_an_error_here_leaves_no_process_behind() -> None:
    here = os.getpid()
    before = children()

    def fail_here(share: list[int]) -> list[int]:
        while os.getpid() != here:
            pass
        raise KeyError(share[0])

    with pytest.raises(KeyError):
        second_process.both(fail_here, [1], [2], list[int])
    assert children() <= before


@pytest.mark.parametrize("weights", [[], [5], [1, 1], [9, 1, 1], [1, 1, 9], [0, 0], [3, 3, 3, 3]])
def test_halves_hold_everything_once(weights: list[int]) -> None:
    items = list(enumerate(weights))
    first, second = second_process.halves(items, lambda item: item[1])
    assert sorted(first + second) == items
    if len(weights) == 4:
        assert len(first) == len(second) == 2
