"""The arguments of a call by their names, however they were passed."""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import Any

import msgspec

from takeback.core.values import view, view_of
from takeback.engine.runs.declare import Function


class Shape(msgspec.Struct, frozen=True):
    """The parameters of a function."""

    signature: inspect.Signature
    names: tuple[str, ...]
    """Parameters that can be passed by position."""
    needed: frozenset[str]
    rest: str
    """The parameter that collects further positional arguments (`*args`)."""
    spread: str
    """The parameter that collects further keyword arguments (`**kwargs`)."""
    is_simple: bool
    """True if every argument can be passed by name and by position."""


def by_name(function: Function, kept: dict[str, Any]) -> dict[str, Any]:
    """Return arguments by name, so that volatile ones are recognised however they were passed."""
    try:
        shape = _shape(function)
        args, kwargs = kept["args"], kept["kwargs"]
        if shape.is_simple and len(args) <= len(shape.names):
            found = {**dict(zip(shape.names, args, strict=False)), **kwargs}
            once = len(found) == len(args) + len(kwargs)
            if once and shape.needed <= found.keys() and found.keys() <= set(shape.names):
                return found
        bound = shape.signature.bind(*args, **kwargs)
    except (TypeError, ValueError):
        return kept  # the call itself will report what is wrong
    return {name: list(v) if isinstance(v, tuple) else v for name, v in bound.arguments.items()}


def spread(function: Function) -> str:
    """Return the parameter that collects further keyword arguments."""
    shape = _known(function)
    return shape.spread if shape else "kwargs"  # as they are kept


def seen(function: Function, kept: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments as a log may show them. A name marks a secret even if passed by position."""
    names = _by_place(function, len(kept["args"]))
    return {
        "args": [view_of(name, item) for name, item in zip(names, kept["args"], strict=True)],
        "kwargs": view(kept["kwargs"]),
    }


def _by_place(function: Function, count: int) -> list[str]:
    shape = _known(function)
    names, rest = (shape.names, shape.rest) if shape else ((), "")
    return [*names, *[rest] * (count - len(names))][:count]


def _known(function: Function) -> Shape | None:
    try:
        return _shape(function)
    except (TypeError, ValueError):
        return None


@lru_cache(maxsize=1024)
def _shape(function: Function) -> Shape:
    signature = inspect.signature(function)
    every = list(signature.parameters.values())
    named = [p for p in every if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return Shape(
        signature,
        tuple(p.name for p in named),
        frozenset(p.name for p in named if p.default is p.empty),
        next((p.name for p in every if p.kind is p.VAR_POSITIONAL), ""),
        next((p.name for p in every if p.kind is p.VAR_KEYWORD), ""),
        all(p.kind is p.POSITIONAL_OR_KEYWORD for p in every),
    )
