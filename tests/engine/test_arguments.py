"""Arguments by their names are those that Python itself would bind, whichever way they are found."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from takeback.engine.runs import arguments


def plain(a: int, b: int = 2, c: int = 3) -> None: ...
def nothing() -> None: ...
def only_by_place(a: int, /, b: int) -> None: ...
def only_by_name(a: int, *, b: int = 1) -> None: ...
def rest(a: int, *more: int, **options: int) -> None: ...


CALLS: list[tuple[list[int], dict[str, int]]] = [
    ([], {}),
    ([1], {}),
    ([1, 2], {}),
    ([1, 2, 3, 4], {}),
    ([], {"a": 1}),
    ([1], {"b": 5}),
    ([1], {"a": 5}),
    ([1], {"z": 5}),
    ([], {"b": 5, "a": 4}),
    ([1, 2], {"c": 9}),
]


@pytest.mark.parametrize("function", [plain, nothing, only_by_place, only_by_name, rest])
@pytest.mark.parametrize("args, kwargs", CALLS)
def test_as_python_binds_them(function: Callable[..., Any], args: list[int], kwargs: dict[str, int]) -> None:
    kept = {"args": args, "kwargs": kwargs}
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        expected: Any = kept
    else:
        expected = {name: list(v) if isinstance(v, tuple) else v for name, v in bound.arguments.items()}
    assert arguments.by_name(function, kept) == expected
