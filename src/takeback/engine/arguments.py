"""The arguments of a call by their names, however they were passed."""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import Any

from takeback.core.values import view, view_of
from takeback.engine.actions import Function


def by_name(function: Function, kept: dict[str, Any]) -> dict[str, Any]:
    """Arguments by their names, so that the volatile ones are known however they were passed."""
    try:
        bound = _signature(function).bind(*kept["args"], **kept["kwargs"])
    except (TypeError, ValueError):
        return kept  # the call itself will say what is wrong
    return {name: list(v) if isinstance(v, tuple) else v for name, v in bound.arguments.items()}


def spread(function: Function) -> str:
    """The argument that takes all others by their names."""
    known = _parameters(function)
    if known is None:
        return "kwargs"  # as they are kept
    return next((each.name for each in known if each.kind is each.VAR_KEYWORD), "")


def seen(function: Function, kept: dict[str, Any]) -> dict[str, Any]:
    """What a log may show of them: one is a secret by its name, also where that was not said."""
    names = _by_place(function, len(kept["args"]))
    return {
        "args": [view_of(name, item) for name, item in zip(names, kept["args"], strict=True)],
        "kwargs": view(kept["kwargs"]),
    }


def _by_place(function: Function, count: int) -> list[str]:
    known = _parameters(function) or []
    rest = next((each.name for each in known if each.kind is each.VAR_POSITIONAL), "")
    names = [each.name for each in known if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return [*names, *[rest] * count][:count]


def _parameters(function: Function) -> list[inspect.Parameter] | None:
    try:
        return list(_signature(function).parameters.values())
    except (TypeError, ValueError):
        return None


@lru_cache(maxsize=1024)
def _signature(function: Function) -> inspect.Signature:
    return inspect.signature(function)
