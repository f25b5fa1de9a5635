"""Conversations as values: names, lists in sections, and what a snapshot is made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.core.conversation import (
    MANY,
    NAME_BYTES,
    NODE_NAMES,
    ONE,
    Kin,
    StatePiece,
    StateValue,
    Write,
    folded,
    latest,
    leaves_in,
    name_of,
    needed_by,
    nodes_in,
    split,
    values_in,
)


def names(count: int) -> list[bytes]:
    return [name_of(StatePiece("text", str(n).encode())) for n in range(count)]


def test_a_name_is_that_of_type_and_bytes() -> None:
    pieces = [
        StatePiece("a", b"bc"),
        StatePiece("ab", b"c"),
        StatePiece("a", b"cb"),
        StatePiece("", b"a\0bc"),
    ]
    assert len({name_of(piece) for piece in pieces}) == 4
    assert all(len(name_of(piece)) == NAME_BYTES for piece in pieces)
    assert name_of(StatePiece("a", b"bc")) == name_of(pieces[0])
    assert (NAME_BYTES, NODE_NAMES) == (20, 32)  # stored states depend on both


@given(st.integers(0, 5 * NODE_NAMES))
def test_a_folded_list_is_the_list(count: int) -> None:
    row, nodes = folded(names(count))
    value = StateValue("x", True, row)
    assert leaves_in(value, nodes) == names(count)
    assert set(nodes_in(value)) == set(nodes) and len(nodes) == count // NODE_NAMES
    assert all(name_of(node) == name and len(split(node.body)) == NODE_NAMES for name, node in nodes.items())


def test_a_list_that_grows_keeps_its_sections() -> None:
    _, before = folded(names(2 * NODE_NAMES + 1))
    row, after = folded(names(3 * NODE_NAMES))
    assert before.items() < after.items() and len(after) == 3
    assert len(row) == 4 + 3 * NAME_BYTES


def test_a_single_value_has_no_sections() -> None:
    (name,) = names(1)
    assert nodes_in(StateValue("x", False, name)) == [] and leaves_in(StateValue("x", False, name), {}) == [
        name
    ]


def test_a_missing_section_is_an_error() -> None:
    row, _ = folded(names(NODE_NAMES))
    with pytest.raises(KeyError):
        leaves_in(StateValue("x", True, row), {})


def test_writes_may_be_in_pieces() -> None:
    (name,) = names(1)
    row, _ = folded([name])
    writes = [
        Write("t", 0, "", "a", StatePiece("msgpack", b"inline")),
        Write("t", 1, "", "b", StatePiece(ONE, name)),
        Write("t", 2, "", "c", StatePiece(MANY, row)),
    ]
    first = StateValue("x", False, name)
    assert values_in([first], writes) == [first, StateValue("b", False, name), StateValue("c", True, row)]


def kin(id: str, *lacks: str, space: str = "", parent: str | None = None) -> Kin:
    return Kin(space, id, str(int(id) - 1) if parent is None else parent, "", lacks)


def test_the_latest_of_each_space() -> None:
    every = [kin("1"), kin("3"), kin("2"), kin("1", space="child")]
    assert latest(every) == [every[1], every[3]]
    assert latest([]) == []


def test_a_whole_snapshot_needs_no_other() -> None:
    every = [kin("1"), kin("2"), kin("3")]
    assert needed_by(every[2:], every) == {("", "3")}


def test_what_a_snapshot_lacks_is_looked_for_in_those_before_it() -> None:
    every = [kin("1"), kin("2"), kin("3", "a"), kin("4", "a", "b"), kin("5", "a", "b")]
    # Snapshot 3 has b, and 2 has a.
    assert needed_by(every[4:], every) == {("", "5"), ("", "4"), ("", "3"), ("", "2")}


def test_the_search_ends_where_the_thread_begins() -> None:
    every = [kin("7", "a", parent=""), kin("8", "a"), kin("8", "a", space="child", parent="7")]
    assert needed_by(every[1:], every) == {("", "8"), ("", "7"), ("child", "8")}
    assert needed_by([kin("9", "a", parent="gone")], every) == {("", "9")}
