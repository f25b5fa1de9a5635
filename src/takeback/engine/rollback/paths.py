"""Selecting targets by paths, absolute or relative to the current folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from takeback.core.change import IN_ROOT, OUTSIDE, Target
from takeback.core.codec import path_of, text_of
from takeback.core.history import History
from takeback.core.selection import Filter, NarrowFilter, any_target
from takeback.errors import UsageError


def path_filter(root: Path, history: History, paths: Iterable[str]) -> Filter:
    """Return a predicate for targets at or below one of these paths; without paths, for all targets."""
    if isinstance(paths, str):
        raise UsageError(f"paths is a list, not a string: [{paths!r}]")
    wanted = [_known(root, history, path) for path in paths]
    return AtPaths(wanted) if wanted else any_target


def at_paths(root: Path, paths: Iterable[str]) -> AtPaths:
    """Return a filter for targets at or below these paths, whether or not anything recorded changed them."""
    return AtPaths(relative(root, path) for path in paths)


class AtPaths(NarrowFilter):
    """A filter for targets at or below one of these paths."""

    def __init__(self, paths: Iterable[bytes]) -> None:
        self._paths = tuple(paths)

    @property
    def is_everything(self) -> bool:
        """Whether one of the paths is the workspace itself."""
        return b"." in self._paths

    def __call__(self, target: Target) -> bool:
        return any(_covers(path, target) for path in self._paths)

    def targets(self, history: History) -> Iterator[Target]:
        found = (target for path in self._paths for target in _changed(history, path))
        return iter(dict.fromkeys(found))


def _covers(path: bytes, target: Target) -> bool:
    absolute = path.startswith(b"/")
    if target.root or target.resource not in ((OUTSIDE,) if absolute else IN_ROOT):
        return False
    name = path_of(target.name)
    return path in (b".", name) or name.startswith(path + b"/")


def _known(root: Path, history: History, path: str) -> bytes:
    """Return the path relative to the root, or an absolute one outside. Raise UsageError if it never existed."""
    found = relative(root, path)
    if found.startswith(b"/"):
        if not _was_changed(history, found):
            raise UsageError(f"{path} is outside the workspace {root}, and nothing recorded changed it")
        return found
    if os.path.lexists(os.path.join(os.fsencode(root), found)):
        return found
    if not _was_changed(history, found):
        raise UsageError(
            f"there is no {path}, and no recorded action ever changed it; nothing was changed",
            hint="`takeback log` lists the actions, and `takeback show ID` the paths of one",
        )
    return found


def _was_changed(history: History, path: bytes) -> bool:
    """Return whether anything recorded changed this path, or something below it."""
    return any(True for _ in _changed(history, path))


def _changed(history: History, path: bytes) -> Iterator[Target]:
    """Yield what was ever changed at or below a path."""
    resources = (OUTSIDE,) if path.startswith(b"/") else IN_ROOT
    name = "" if path == b"." else text_of(path)
    return (target for resource in resources for target in history.targets(resource, name))


def relative(root: Path, path: str) -> bytes:
    """Return a path relative to the root, or an absolute one outside of it."""
    if not path:
        # A script's variable that is not set must not stand for the whole workspace.
        raise UsageError("an empty path was given; nothing was changed", hint="for the current folder: .")
    # The folder is resolved, the name is not: the user may mean a link itself.
    folder, name = os.path.split(os.path.abspath(path))
    whole = os.path.join(os.path.realpath(folder), name)
    inside = os.path.relpath(whole, root)
    outside = inside == ".." or inside.startswith("../")
    return os.fsencode(whole if outside else inside)
