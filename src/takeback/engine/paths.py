"""Which targets a person means by paths, given relative to the current folder or absolute."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from takeback.core.change import Target
from takeback.core.codec import path_of
from takeback.core.history import History
from takeback.core.selection import Filter, any_target
from takeback.errors import UsageError

AT_PATHS = ("files", "sqlite")
"""Resources whose targets have paths for names."""


def path_filter(root: Path, history: History, paths: Iterable[str]) -> Filter:
    """A test for targets: those at or below one of these paths. Without paths, all."""
    if isinstance(paths, str):
        raise UsageError(f"paths is a list, not a string: [{paths!r}]")
    wanted = [_known(root, history, path) for path in paths]
    if not wanted:
        return any_target
    return lambda target: any(_covers(path, target) for path in wanted)


def _covers(path: bytes, target: Target) -> bool:
    if target.resource not in AT_PATHS or target.root:
        return False
    name = path_of(target.name)
    return path in (b".", name) or name.startswith(path + b"/")


def _known(root: Path, history: History, path: str) -> bytes:
    """The path from the root. One that never was is a mistake of the caller."""
    relative = _relative(root, path)
    if os.path.lexists(os.path.join(os.fsencode(root), relative)):
        return relative
    if not any(_covers(relative, target) for target in history.targets()):
        raise UsageError(f"there is no {path}, and nothing recorded ever changed one")
    return relative


def _relative(root: Path, path: str) -> bytes:
    # The folder is resolved, the name is not: it may be a link that is meant itself.
    folder, name = os.path.split(os.path.abspath(path))
    relative = os.path.relpath(os.path.join(os.path.realpath(folder), name), root)
    if relative == ".." or relative.startswith("../"):
        raise UsageError(f"{path} is outside the workspace {root}")
    return os.fsencode(relative)
