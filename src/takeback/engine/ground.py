"""What the safety rules are read against here: this workspace, this folder, these links."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Mapping
from typing import Any

from takeback.core.policy import Foresee, Ground
from takeback.core.rules import ToolRules
from takeback.engine.actions import unwrapped


def ground_of(
    root: str,
    rules: ToolRules,
    short: Mapping[str, str],
    foresee: Foresee | None = None,
    here: str = "",
) -> Ground:
    """The ground under a call made now, in the workspace at `root`, which is absolute and without links.

    A relative path is meant from `here`, else from the current folder, as the tool will. A tool that a rule, or a
    short name, calls by another name than that of its definition is meant all the same.
    """
    exact = [
        name for name in (*(rules.allow or ()), *rules.ask, *rules.deny) if ":" in name and "*" not in name
    ]
    known = {**{name: name for name in exact}, **short}
    pairs = [(alias, name) for alias, target in known.items() for name in (target, _loaded(target))]
    return Ground(root, here or os.getcwd(), tuple(dict.fromkeys(pairs)), real_path, foresee)


def name_in_rules(function: Callable[..., Any], otherwise: str = "") -> str:
    """How the rules know a function: `package.module:function`, where it was defined."""
    function, _, _ = unwrapped(function)
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if name and not module and not otherwise:
        # A method of a builtin kind: it is where that kind is.
        module = getattr(function, "__objclass__", type(getattr(function, "__self__", None))).__module__
    if module and name:
        return f"{module}:{name}"
    return otherwise or f"{type(function).__module__}:{type(function).__qualname__}"


def _loaded(target: str) -> str:
    """The same for a function that may have been imported under another name; nothing is imported for it."""
    module, _, path = target.partition(":")
    found: Any = sys.modules.get(module)
    for name in path.split("."):
        found = getattr(found, name, None)
    return name_in_rules(found, target) if callable(found) else target


SCRIPT_MAX = 100_000
"""Bytes of a script that are read before it runs. The judge asks about one that is longer."""


def script_text(path: str) -> str | None:
    """The text of a script, of a long one how it begins; None for anything but a text in a regular file."""
    try:
        # A pipe of that name would not answer.
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return None
        content = os.pread(opened, SCRIPT_MAX + 4, 0)
    finally:
        os.close(opened)
    text = content.decode("utf-8", "surrogateescape")
    return None if "\0" in text else text


def real_path(path: str) -> str:
    """Where a path leads, links followed."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        # No file can have such a name, so it leads nowhere; its words are judged all the same.
        return path
