"""Named places where a test may interrupt, and the durable file calls that pass through them.

`reach(name)` does nothing in ordinary life. A test sets a hook that kills the process, raises an error or counts.
So every crash test hits exactly the line it names, and an injected disk error takes the road of a real one.
"""

from __future__ import annotations

import os
from collections.abc import Callable

Hook = Callable[[str], None]

_hook: Hook | None = None
_known: set[str] = set()


def crash_point(name: str) -> str:
    """Declare a place by name, once, where its module is read; a test then finds it among `known()`."""
    _known.add(name)
    return name


def known() -> frozenset[str]:
    """Every declared place of the modules imported so far."""
    return frozenset(_known)


def reach(name: str) -> None:
    """Pass a named place."""
    if _hook is not None:
        _hook(name)


def set_hook(hook: Hook | None) -> Hook | None:
    """Install what happens at a named place; returns the hook before. For tests only."""
    global _hook
    before, _hook = _hook, hook
    return before


def fsync(fd: int) -> None:
    """Make a file's bytes survive a power cut."""
    reach("disk-sync")
    os.fsync(fd)


def fdatasync(fd: int) -> None:
    """The same, without what only tells when it was written."""
    reach("disk-sync")
    os.fdatasync(fd)


def sync_folder(path: str | bytes | os.PathLike[str]) -> None:
    """Make the names in a folder survive a power cut: a new or renamed file alone can be lost with it."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fsync(fd)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write every byte, or raise."""
    reach("disk-write")
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


crash_point("disk-sync")
crash_point("disk-write")
