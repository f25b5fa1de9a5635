"""The upper layer of an overlay: everything that was changed in it, and nothing else.

A folder is there if anything in it changed. A deleted name is a character device 0/0, or a file with an attribute;
a folder that replaced another one is marked opaque, one that was renamed carries where it was. What was made and
deleted again leaves nothing but its folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

import msgspec

_PREFIXES = ("user.overlay.", "trusted.overlay.")


class TouchedFolder(msgspec.Struct, frozen=True):
    """A folder of an upper layer, by its path below the layer, with the names in it."""

    path: bytes
    there: tuple[bytes, ...]
    """What was written: files, links and folders."""
    gone: tuple[bytes, ...]
    """What was deleted."""


def walk(upper: bytes) -> Iterator[TouchedFolder]:
    """Yield every folder of an upper layer, those above first."""
    pending = [b""]
    while pending:
        path = pending.pop()
        there: list[bytes] = []
        gone: list[bytes] = []
        try:
            entries = list(os.scandir(os.path.join(upper, path)))
        except OSError:
            continue  # closed to its owner, or removed meanwhile
        for entry in entries:
            found = entry.stat(follow_symlinks=False)
            (gone if _is_whiteout(entry.path, found) else there).append(entry.name)
            if stat.S_ISDIR(found.st_mode):
                pending.append(os.path.join(path, entry.name))
        yield TouchedFolder(path, tuple(there), tuple(gone))


def _is_whiteout(path: bytes, found: os.stat_result) -> bool:
    if stat.S_ISCHR(found.st_mode):
        return found.st_rdev == 0
    if not stat.S_ISREG(found.st_mode) or found.st_size:
        return False
    return any(f"{prefix}whiteout" in _attributes(path) for prefix in _PREFIXES)


def is_opaque(path: bytes) -> bool:
    """Return whether a folder of an upper layer hides what is below it, or shows what was elsewhere."""
    names = _attributes(path)
    return any(f"{prefix}{what}" in names for prefix in _PREFIXES for what in ("opaque", "redirect"))


def _attributes(path: bytes) -> list[str]:
    try:
        return os.listxattr(path, follow_symlinks=False)
    except OSError:
        return []
