"""Long lists: what is recorded of a change leads to the value exactly, forwards and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.core import memory
from takeback.core.change import ABSENT, Change, Entry, Target, Version

item = (
    st.none() | st.booleans() | st.integers(0, 2) | st.just(1.0) | st.fixed_dictionaries({"k": st.booleans()})
)
values: st.SearchStrategy[Any] = st.lists(item, max_size=14) | st.none() | st.just({}) | st.integers(0, 2)


def told(states: list[Any]) -> list[Entry]:
    """The changes from each state to the next, as they are recorded."""
    made: list[Entry] = []
    before: dict[str, Any] = {}
    for state in states:
        after = {"/list": state}
        changes = memory.changes("r1", before, after)
        made += [Entry(len(made) + n, "a1", change) for n, change in enumerate(changes, 1)]
        before = after
    return made


@given(st.lists(values, min_size=1, max_size=8))
def test_every_state_is_found_again(states: list[Any]) -> None:
    timeline = told(states)
    current: Any = None
    for n, entry in enumerate(timeline):
        current = memory.value_after(timeline, n, current)
        assert memory.version(current) == entry.change.after
        for version in (entry.change.before, entry.change.after):
            if version:
                assert memory.version(memory.value_of(version, timeline)) == version


def test_only_what_was_added_is_recorded() -> None:
    messages = [{"role": "user", "text": "x" * 100} for _ in range(50)]
    (entry,) = told([messages, [*messages, "last"]])[1:]
    assert entry.change.after.data == {"at": 50, "drop": 0, "add": ["last"]}
    assert entry.change.before.data is None


def test_a_short_list_and_one_that_changed_much_are_recorded_whole() -> None:
    for before, after in ([[1, 2], [1, 2, 3]], [list(range(20)), list(range(20, 40))]):
        (entry,) = told([before, after])[1:]
        assert entry.change.before.data == before and entry.change.after.data == after


ITEMS: list[Any] = list(range(20))


@pytest.mark.parametrize(
    "before, after, at, drop, add",
    [
        (ITEMS[:8], ITEMS[:9], 8, 0, [8]),
        ([0] * 9, [0] * 10, 9, 0, [0]),
        ([0] * 10, [0] * 9, 9, 1, []),
        (ITEMS, ["x", *ITEMS], 0, 0, ["x"]),
        (ITEMS, ITEMS[:5] + ITEMS[7:], 5, 2, []),
        (ITEMS, [*ITEMS[:5], "x", "y", *ITEMS[6:]], 5, 1, ["x", "y"]),
        (ITEMS, [*"abcde", *ITEMS[5:]], 0, 5, list("abcde")),
    ],
)
def test_the_smallest_part_that_changed_is_recorded(
    before: list[Any], after: list[Any], at: int, drop: int, add: list[Any]
) -> None:
    (entry,) = told([before, after])[1:]
    assert entry.change.after.data == {"at": at, "drop": drop, "add": add}
    assert memory.spliced(before, entry.change.after.data) == after


@pytest.mark.parametrize(
    "before, after", [(ITEMS[:7], ITEMS[:8]), (ITEMS, [*"abcdef", *ITEMS[6:]]), (ITEMS, ITEMS[:9])]
)
def test_what_is_short_or_changed_by_more_than_half_is_recorded_whole(
    before: list[Any], after: list[Any]
) -> None:
    (entry,) = told([before, after])[1:]
    assert entry.change.before.data == before and entry.change.after.data == after


def test_a_value_is_looked_for_under_its_own_name_alone() -> None:
    timeline = told([7, ITEMS, [*ITEMS, 20]])
    assert memory.value_of(timeline[2].change.after, timeline) == [*ITEMS, 20]
    there = memory.changes("r1", {"/list": ITEMS}, {"/list": [*ITEMS, 20]})
    back = memory.changes("r1", {"/list": [*ITEMS, 20]}, {"/list": ITEMS})
    # They lead round in a circle, and nowhere stands what is in it.
    circle = [Entry(n, "a1", change) for n, change in enumerate((*there, *back), 1)]
    with pytest.raises(KeyError):
        memory.value_of(there[0].before, circle)


def test_what_python_takes_for_alike_is_not() -> None:
    ones: list[Any] = [1] * 20
    for other in (True, 1.0):
        (entry,) = told([ones, [*ones[:10], other, *ones[11:]]])[1:]
        found = memory.value_of(entry.change.after, told([ones, [*ones[:10], other, *ones[11:]]]))
        assert type(found[10]) is type(other)


def test_a_change_of_another_state_than_the_last_one() -> None:
    """Two threads read the same list: the later record is made of what it read, as it says."""
    target, base = Target("memory", "/list", "r1"), list(range(20))
    one = memory.changes("r1", {"/list": base}, {"/list": [*base, "one"]})
    two = memory.changes("r1", {"/list": base}, {"/list": [*base, "two"]})
    first = Change(target, ABSENT, memory.version(base))
    timeline = [Entry(n, "a1", change) for n, change in enumerate((first, *one, *two), 1)]
    assert memory.value_after(timeline, 2, [*base, "one"]) == [*base, "two"]
    assert memory.value_of(two[0].after, timeline) == [*base, "two"]


def test_a_version_that_never_was() -> None:
    with pytest.raises(KeyError):
        memory.value_of(memory.changes("r1", {"/l": [0] * 9}, {"/l": [0] * 10})[0].before, [])


def test_a_value_is_named_by_its_key_and_its_run() -> None:
    assert Target("memory", "/plan/a~1b~0c", "r2").said == "plan/a/b~c of r2"
    assert Target("files", "a.py").said == "a.py"


def test_a_value_that_is_only_known_as_what_was_before_is_found() -> None:
    (first,) = told([list(range(20))])
    change = Change(first.change.target, first.change.after, ABSENT)
    assert memory.value_of(Version(first.change.after.id), [Entry(1, "a1", change)]) == list(range(20))
