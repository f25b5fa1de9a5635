"""Nested values as targets with paths."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from takeback.core import memory
from takeback.core.change import ABSENT

leaves = st.none() | st.integers(-9, 9) | st.text(max_size=3) | st.lists(st.integers(0, 3), max_size=3)
nested = st.dictionaries(
    st.text(max_size=3),
    st.recursive(leaves, lambda inner: st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_size=4,
)


@given(nested)
def test_flat_and_back_is_the_same(value: dict[str, Any]) -> None:
    assert memory.unflatten(memory.flatten(value)) == value


@given(nested, nested)
def test_the_changes_lead_from_one_state_to_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    flat = memory.flatten(before)
    for change in memory.changes("r1", flat, memory.flatten(after)):
        assert (change.target.resource, change.target.root) == ("memory", "r1")
        assert change.before == (
            memory.version(flat[change.target.name]) if change.target.name in flat else ABSENT
        )
        if change.after:
            flat[change.target.name] = change.after.data
        else:
            del flat[change.target.name]
    assert memory.unflatten(flat) == after


def test_what_comes_back_is_nobody_elses() -> None:
    kept = {"/list": [1], "/empty": {}}
    made = memory.unflatten(kept)
    made["list"].append(2)
    made["empty"]["x"] = 1
    assert kept == {"/list": [1], "/empty": {}}


def test_a_place_wins_over_a_value_that_came_back_under_it() -> None:
    assert memory.unflatten({"/a": 1, "/a/b": 2}) == {"a": {"b": 2}}
    assert memory.unflatten({"/a/b": 2, "/a": 1}) == {"a": {"b": 2}}, "whichever came first"


def test_a_dictionary_is_a_place_and_an_empty_one_a_value() -> None:
    assert memory.flatten({"a": {"b": 1}, "c": {}}) == {"/a/b": 1, "/c": {}}
    assert memory.flatten({}) == {}


def test_changes_are_in_the_order_of_their_names() -> None:
    names = [f"/{letter}" for letter in "abcdefghijkl"]
    assert [c.target.name for c in memory.changes("r1", {}, dict.fromkeys(reversed(names), 1))] == names


def test_keys_with_odd_letters() -> None:
    assert memory.keys_of(memory.pointer("a/b", "~1", "")) == ["a/b", "~1", ""]
