"""Stand-ins for results that only another system can give, of the type that the function declares.

A stand-in is recognised wherever it turns up later: as an argument, or inside a text. So when a shadow is promoted,
the real result takes its place.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

import msgspec

from takeback.errors import UsageError

_TEXT = re.compile(r"\(stand-in [0-9]+\)")
IN_TEXT = re.compile(rb"\(stand-in [0-9]+\)|-40000000[0-9]{5}\b")
"""Finds a stand-in in the bytes of a file."""
_FIRST = -4_000_000_000_000
"""Numbers that stand in for others count down from here: nobody means one of these."""


class NoStandIn(Exception):
    """Nothing of this type can stand in for a real result without being taken for one."""


class StandIns:
    """The stand-ins that one shadow has issued."""

    def __init__(self) -> None:
        self._issued = 0

    def of(self, kind: Any) -> Any:
        """Return a stand-in of a type. Raise NoStandIn where only the real value would do."""
        if kind in (None, types.NoneType):
            return None
        if kind is str:
            self._issued += 1
            return f"(stand-in {self._issued})"
        if kind is int:
            self._issued += 1
            return _FIRST - self._issued
        origin = typing.get_origin(kind)
        if origin in (typing.Union, types.UnionType):
            some = [one for one in typing.get_args(kind) if one is not types.NoneType]
            if len(some) == 1:
                return self.of(some[0])
        fields = _fields(kind)
        if fields:
            return {name: self.of(one) for name, one in fields.items()}
        raise NoStandIn(f"a {getattr(kind, '__name__', kind)}")


_issuing: ContextVar[StandIns | None] = ContextVar("takeback-stand-ins", default=None)


def stand_in(kind: type = str) -> Any:
    """Return a stand-in for a value that only the real system knows, such as an id: for functions in `simulate`."""
    issuing = _issuing.get()
    if issuing is None:
        raise UsageError(
            "there is no simulation here", hint="takeback.stand_in() is for functions that simulate an action"
        )
    try:
        return issuing.of(kind)
    except NoStandIn as error:
        raise UsageError(f"{error} cannot stand in for a real value", hint="use str or int") from None


def issuing(stand_ins: StandIns, function: Callable[[], Any]) -> Any:
    """Return what a function returns that may ask for stand-ins."""
    token = _issuing.set(stand_ins)
    try:
        return function()
    finally:
        _issuing.reset(token)


def result_type(function: Callable[..., Any]) -> Any:
    """Return the type that a function declares for its result. Raise NoStandIn if it declares none."""
    try:
        hints = typing.get_type_hints(function)
    except Exception as error:
        raise NoStandIn(f"what its annotations mean: {error}") from error
    if "return" not in hints:
        raise NoStandIn("a result without a declared type")
    return hints["return"]


def _fields(kind: Any) -> dict[str, Any]:
    """Return the fields of a class that is a record: a TypedDict, a dataclass, a named tuple or a Struct."""
    if not isinstance(kind, type):
        return {}
    is_record = (
        typing.is_typeddict(kind)
        or dataclasses.is_dataclass(kind)
        or issubclass(kind, msgspec.Struct)
        or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
    )
    return typing.get_type_hints(kind) if is_record else {}


def built(kind: Any, value: Any) -> Any:
    """Return a stand-in as an instance of its class, as the caller of the function expects it."""
    if not isinstance(value, dict) or typing.is_typeddict(kind):
        return value
    for one in typing.get_args(kind) or (kind,):
        if isinstance(one, type) and one is not types.NoneType:
            names = _fields(one)
            return one(**{name: built(hint, value[name]) for name, hint in names.items()}) if names else value
    return value


# Finding them again

Marks = dict[str, str]
"""Where stand-ins are in a result: each, as JSON, by its JSON Pointer."""


def is_one(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, int):
        return 2 * _FIRST < value < _FIRST
    return isinstance(value, str) and _TEXT.fullmatch(value) is not None


def marks_in(result: Any) -> Marks:
    """Return the stand-ins in a result by their places."""
    return dict(_marks(result, ""))


def _marks(value: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _marks(item, f"{place}/{key.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _marks(item, f"{place}/{at}")
    elif is_one(value):
        yield place, msgspec.json.encode(value).decode()


def known_at(place: str, result: Any) -> Any:
    """Return what a real result has at a place. Raise KeyError if there is nothing."""
    for token in place.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(result, dict):
            result = result[name]
        elif isinstance(result, list) and name.isdecimal() and int(name) < len(result):
            result = result[int(name)]
        else:
            raise KeyError(place)
    return result


def replaced(value: Any, known: Mapping[str, Any]) -> Any:
    """Return arguments with each stand-in replaced by what is known now. Raise KeyError for one that is not known."""
    if isinstance(value, dict):
        return {key: replaced(item, known) for key, item in value.items()}
    if isinstance(value, list):
        return [replaced(item, known) for item in value]
    if is_one(value):
        return known[msgspec.json.encode(value).decode()]
    if isinstance(value, str) and _TEXT.search(value):
        for mark, real in known.items():
            if isinstance(plain := msgspec.json.decode(mark), str):
                value = value.replace(plain, str(real))
        if _TEXT.search(value):
            raise KeyError(value)
    return value
