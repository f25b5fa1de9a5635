"""From a path in a JSON value to its line and column."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.core.json_position import line_and_column, offset_of, parts_of, path_of

TEXT = '{"a": 1,\n "b": [ 10, {"c\\u0064": "x"} ],\n "e": {}, "l": [], "s": "t"}'


@pytest.mark.parametrize(
    "parts, at",
    [
        ([], "{"),
        (["a"], "1"),
        (["b"], "["),
        (["b", 0], "10"),
        (["b", 1, "cd"], '"x"'),
        # As far as it goes.
        (["b", 2], "["),
        (["b", "a"], "["),
        (["nothing"], '{"a"'),
        (["a", "b"], "1"),
        (["e", "x"], "{}"),
        (["l", 0], "[]"),
        (["s", 0], '"t"'),
    ],
)
def test_a_place(parts: list[str | int], at: str) -> None:
    assert TEXT[offset_of(TEXT, parts) :].startswith(at)


def test_a_place_in_a_text_without_spaces() -> None:
    text = '[1,{"a":2,"b":[3]}]'
    places: list[tuple[list[str | int], int]] = [([0], 1), ([1], 3), ([1, "a"], 8), ([1, "b", 0], 15)]
    for parts, at in places:
        assert offset_of(text, parts) == at


def test_of_two_with_one_name_the_last_counts() -> None:
    assert offset_of('{"a": 1, "a": 2}', ["a"]) == 14


def test_line_and_column() -> None:
    assert line_and_column("ab\ncd", 0) == (1, 1)
    assert line_and_column("ab\ncd", 2) == (1, 3)
    assert line_and_column("ab\ncd", 3) == (2, 1)
    assert line_and_column("ab\ncd", 5) == (2, 3)


def test_paths_as_msgspec_writes_them() -> None:
    assert parts_of("$") == []
    assert parts_of("$.items[2].name") == ["items", 2, "name"]
    assert parts_of("$[0].m[...]") == [0, "m"]
    assert path_of(["items", 2, "name"]) == "$.items[2].name"


values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(values, st.sampled_from([None, 0, 1, "\t"]), st.booleans())
def test_every_place_is_found(value: Any, indent: int | str | None, ascii_only: bool) -> None:
    text = " \n" + json.dumps(value, indent=indent, ensure_ascii=ascii_only) + " "

    def walk(inner: Any, parts: list[str | int]) -> None:
        found, _ = json.JSONDecoder().raw_decode(text, offset_of(text, parts))
        assert found == inner
        children = (
            inner.items() if isinstance(inner, dict) else enumerate(inner) if isinstance(inner, list) else ()
        )
        for key, item in children:
            walk(item, [*parts, key])

    walk(value, [])
