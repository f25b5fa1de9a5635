"""Which targets a person means by paths, given relative to the current folder or absolute."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from takeback.core.change import OUTSIDE, Target
from takeback.core.codec import path_of
from takeback.core.history import History
from takeback.core.selection import Filter, any_target
from takeback.errors import UsageError

AT_PATHS = ("files", "sqlite")
"""Resources whose targets have paths for names, from the root on."""


def path_filter(root: Path, history: History, paths: Iterable[str]) -> Filter:
    """A test for targets: those at or below one of these paths. Without paths, all."""
    if isinstance(paths, str):
        raise UsageError(f"paths is a list, not a string: [{paths!r}]")
    wanted = [_known(root, history, path) for path in paths]
    if not wanted:
        return any_target
    return lambda target: any(_covers(path, target) for path in wanted)


def _covers(path: bytes, target: Target) -> bool:
    absolute = path.startswith(b"/")
    if target.root or target.resource not in ((OUTSIDE,) if absolute else AT_PATHS):
        return False
    name = path_of(target.name)
    return path in (b".", name) or name.startswith(path + b"/")


def _known(root: Path, history: History, path: str) -> bytes:
    """The path from the root, or an absolute one outside. One that never was is a mistake of the caller."""
    relative = _relative(root, path)
    if relative.startswith(b"/"):
        if not any(_covers(relative, target) for target in history.targets()):
            raise UsageError(f"{path} is outside the workspace {root}, and nothing recorded changed it")
        return relative
    if os.path.lexists(os.path.join(os.fsencode(root), relative)):
        return relative
    if not any(_covers(relative, target) for target in history.targets()):
        raise UsageError(f"there is no {path}, and nothing recorded ever changed one")
    return relative


def _relative(root: Path, path: str) -> bytes:
    # The folder is resolved, the name is not: it may be a link that is meant itself.
    folder, name = os.path.split(os.path.abspath(path))
    whole = os.path.join(os.path.realpath(folder), name)
    relative = os.path.relpath(whole, root)
    outside = relative == ".." or relative.startswith("../")
    return os.fsencode(whole if outside else relative)
