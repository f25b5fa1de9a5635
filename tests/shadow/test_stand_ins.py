"""Stand-ins have the declared type, are recognised again, and are never guessed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import msgspec
import pytest

import takeback
from takeback.engine.shadow.stand_ins import (
    NoStandIn,
    StandIns,
    built,
    known_at,
    marks_in,
    replaced,
    result_type,
)


class Room(TypedDict):
    id: str
    floor: int


@dataclass
class Booking:
    room: Room
    note: str | None


class Pair(NamedTuple):
    a: str
    b: None


class Held(msgspec.Struct):
    key: int


@pytest.mark.parametrize("kind", [str, int, None, str | None, Room, Booking, Pair, Held])
def test_a_stand_in_has_the_declared_type(kind: Any) -> None:
    value = built(kind, StandIns().of(kind))
    if kind in (str, int, None, str | None):
        assert value is None or isinstance(value, str | int)
    elif kind is Room:
        assert set(value) == {"id", "floor"}
    else:
        assert isinstance(value, kind)


@pytest.mark.parametrize(
    "kind", [bool, float, list, list[str], dict[str, str], Any, object, bytes, int | str]
)
def test_what_could_be_taken_for_the_real_thing_has_none(kind: Any) -> None:
    with pytest.raises(NoStandIn):
        StandIns().of(kind)


def test_a_function_without_a_declared_result_has_none() -> None:
    def bare(x):  # type: ignore[no-untyped-def]
        return x

    with pytest.raises(NoStandIn):
        result_type(bare)


def test_they_are_recognised_and_replaced() -> None:
    issued = StandIns()
    first, second = issued.of(Room), issued.of(Room)
    marks = marks_in({"rooms": [first, second], "n": 3})
    real = {"rooms": [{"id": "A", "floor": 1}, {"id": "B", "floor": 2}], "n": 3}
    known = {mark: known_at(place, real) for place, mark in marks.items()}
    given = [second["id"], f"{first['id']} and {second['id']}", {"floor": second["floor"]}, 7, "(stand-in"]
    assert replaced(given, known) == ["B", "A and B", {"floor": 2}, 7, "(stand-in"]


@pytest.mark.parametrize("value", ["(stand-in 9)", "see (stand-in 9)", -4_000_000_000_009])
def test_one_without_a_real_result_is_not_passed_on(value: Any) -> None:
    with pytest.raises(KeyError):
        replaced([value], {})


def test_there_is_none_outside_of_a_simulation() -> None:
    with pytest.raises(takeback.UsageError, match="no simulation here"):
        takeback.stand_in()
    assert takeback.simulation() is None
