"""What this very process has open."""

from __future__ import annotations

import os
from collections.abc import Iterator

_FDS = "/proc/self/fd"


def descriptors(path: bytes, found: os.stat_result | None = None) -> list[int]:
    """The descriptors of this process that lead to a file, whoever opened them."""
    try:
        found = found or os.stat(path)
    except OSError:
        return []
    return [fd for fd in _all() if _leads_to(fd, found)]


def _all() -> Iterator[int]:
    try:
        return map(int, os.listdir(_FDS))
    except OSError:
        return iter(())


def _leads_to(fd: int, wanted: os.stat_result) -> bool:
    try:
        found = os.fstat(fd)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino)


def read_start(path: bytes | str, count: int, found: os.stat_result, folder_fd: int | None = None) -> bytes:
    """The first bytes of a file, without dropping the locks that somebody in this process has on it."""
    for fd in descriptors(b"", found):
        try:
            return os.pread(fd, count, 0)
        except OSError:
            # Only for writing, or closed a moment ago.
            continue
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder_fd)
    try:
        return os.pread(fd, count, 0)
    finally:
        os.close(fd)
