"""Functions by name, so that another process can take back what this one did."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from takeback.errors import BackendError, UsageError

MAIN = "__main__"
SIMULATE = "__takeback_simulate__"
"""The attribute of a function with what stands in for it in a simulation: True for itself, or another function."""

_folder: ContextVar[Path | None] = ContextVar("takeback-simulation", default=None)
_everywhere: list[Path] = []

Around = Callable[[Callable[..., Any]], Callable[..., Any]]
_around: list[Around] = []


def simulation() -> Path | None:
    """Return the folder in which stand-ins for other systems keep their state; None while everything is real."""
    return _folder.get() or (_everywhere[-1] if _everywhere else None)


@contextmanager
def simulating(folder: Path, *, everywhere: bool = False) -> Iterator[None]:
    """Let nothing here, or `everywhere` in this process, reach another system: stand-ins are called instead."""
    if everywhere:
        _everywhere.append(folder)
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)
        if everywhere:
            _everywhere.pop()


@contextmanager
def wrapping(around: Around) -> Iterator[None]:
    """Let handlers of this process be called through what `around` returns for each. For tests only."""
    _around.append(around)
    try:
        yield
    finally:
        _around.remove(around)


def made_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function to call now: itself, or in a simulation what stands in for it. Raise if nothing does."""
    if simulation() is None:
        return _around[-1](function) if _around else function
    chosen = getattr(function, SIMULATE, None)
    if chosen is None:
        name = getattr(function, "__qualname__", function)
        raise BackendError(
            f"{name} was not called: this is a simulation, and nothing stands in for it",
            hint="declare it: @takeback.action(..., simulate=...)",
        )
    return function if chosen is True else chosen


def name_of(function: Callable[..., Any]) -> str:
    """Return the name by which any process finds this function. Raise UsageError if there is none."""
    module = getattr(function, "__module__", "") or ""
    qualified = getattr(function, "__qualname__", "") or ""
    if not module or not qualified or "<" in qualified:
        raise UsageError(
            f"{qualified or function!r} cannot be found by its name, so no other process could run it",
            hint="use a function at the top of a module; not a lambda, a closure or a bound method",
        )
    if module == MAIN:
        script = getattr(sys.modules[MAIN], "__file__", None)
        if script is None:
            raise UsageError(
                f"{qualified} was typed into an interpreter, so no other process could run it",
                hint="put it into a file",
            )
        return f"{MAIN}:{qualified}:{os.path.realpath(script)}"
    name = f"{module}:{qualified}"
    try:
        found = find(name)
    except BackendError as error:
        raise UsageError(error.message, error.hint) from error
    if found is not function and getattr(found, "__wrapped__", found) is not function:
        raise UsageError(
            f"{name} is not the function that was passed",
            hint="pass the function that a fresh import of its module has under this name",
        )
    return name


def find(name: str) -> Callable[..., Any]:
    """Return the function with this name."""
    module, _, rest = name.partition(":")
    qualified, _, script = rest.partition(":")
    if module == MAIN:
        running = getattr(sys.modules[MAIN], "__file__", None)
        if running is None or os.path.realpath(running) != script:
            raise BackendError(
                f"{qualified} is part of the script {script}, and only that script can run it",
                hint="run that script again, or move the function into a module",
            )
    try:
        found: Any = importlib.import_module(module)
        for part in qualified.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise BackendError(
            # A report shows the message alone, so the advice is in it.
            f"{module}:{qualified} cannot be imported: {error}; check PYTHONPATH and the installed packages",
            hint="it must be importable wherever you undo",
        ) from error
    if not callable(found):
        raise BackendError(f"{module}:{qualified} is not a function")
    function: Callable[..., Any] = found
    return function
