"""Finding and opening the workspace that is meant."""

from __future__ import annotations

import os
from pathlib import Path

from takeback.errors import UsageError
from takeback.settings import environment, toml
from takeback.storage.state.registry import Registry


def find_root(start: str | os.PathLike[str], registry: Registry) -> Path:
    """The nearest protected workspace, else the nearest takeback.toml, else `.git`, else the directory itself."""
    path = directory_of(start)
    if nearest := registry.nearest(path) or registry.nearest_moved(path):
        return nearest
    for name in (toml.FILE, ".git"):
        for folder in (path, *path.parents):
            if (folder / name).exists() and not environment.is_too_wide(folder):
                return folder
    return path


def directory_of(path: str | os.PathLike[str]) -> Path:
    found = Path(os.path.realpath(path))
    if not found.is_dir():
        raise UsageError(f"{found} is not a folder; nothing was done", hint="name the workspace with -C DIR")
    return found
