"""Finding the workspace of a folder, without loading the engine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from takeback.errors import UsageError
from takeback.settings import FILE, environment
from takeback.storage.state.registry import Registry


def find_root(start: str | os.PathLike[str] = ".", registry: Registry | None = None) -> Path:
    """Return the nearest protected workspace, else the folder of the nearest takeback.toml or `.git`, else
    `start`."""
    path, registry = directory_of(start), registry or registry_of_user()
    if nearest := registry.nearest(path) or registry.nearest_moved(path):
        return nearest
    for name in (FILE, ".git"):
        for folder in (path, *path.parents):
            if (folder / name).exists() and not environment.is_too_wide(folder):
                return folder
    return path


def registry_of_user() -> Registry:
    """Return the list of all workspaces of this user."""
    return Registry(environment.state_home())


def directory_of(path: str | os.PathLike[str]) -> Path:
    found = Path(os.path.realpath(path))
    if not found.is_dir():
        raise UsageError(f"{found} is not a folder; nothing was done", hint="name the workspace with -C DIR")
    return found


def find_modules_at(root: Path) -> None:
    """Let Python import tools and undo handlers of the project, as if started at its top.

    Last, so that a file there does not take the place of an installed module.
    """
    if str(root) not in sys.path:
        sys.path.append(str(root))


def views_of(root: Path) -> list[str]:
    """Return the names of the views of a workspace, without opening it."""
    from takeback.engine.stage.folder import StageFolders  # hardly ever needed

    return StageFolders(registry_of_user().state_of(root)).names()
