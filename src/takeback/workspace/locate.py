"""Finding the workspace that is meant. Nothing of the engine is loaded for it."""

from __future__ import annotations

import os
from pathlib import Path

from takeback.errors import UsageError
from takeback.settings import FILE, environment
from takeback.storage.state.registry import Registry


def find_root(start: str | os.PathLike[str] = ".", registry: Registry | None = None) -> Path:
    """The nearest protected workspace, else the nearest takeback.toml, else `.git`, else the directory itself."""
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
