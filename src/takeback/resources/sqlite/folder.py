"""The folder of a database, opened without following any link: one that is planted while we work leads nowhere."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def folder_of(path: bytes) -> Iterator[int]:
    """A descriptor of the folder in which this absolute path is. An OSError where a link is on the way."""
    fd = os.open("/", _FLAGS)
    try:
        for name in filter(None, os.path.dirname(path).split(b"/")):
            below = os.open(name, _FLAGS, dir_fd=fd)
            os.close(fd)
            fd = below
        yield fd
    finally:
        os.close(fd)


def look(path: bytes) -> os.stat_result:
    """What is at an absolute path. An OSError where nothing is, or a link is on the way."""
    with folder_of(path) as folder:
        return os.stat(os.path.basename(path), dir_fd=folder, follow_symlinks=False)


def is_file(path: bytes) -> bool:
    """Whether there is a regular file, not behind a link."""
    try:
        return stat.S_ISREG(look(path).st_mode)
    except OSError:
        return False


def is_empty(path: bytes) -> bool:
    """Whether there is a regular file of no bytes, not behind a link."""
    try:
        return is_file(path) and not look(path).st_size
    except OSError:
        return False


def is_lone(path: bytes) -> bool:
    """Whether there is a file that has no other name."""
    try:
        return look(path).st_nlink == 1
    except OSError:
        return False


def is_other(path: bytes) -> bool:
    """Whether there is something that is no regular file."""
    try:
        return not stat.S_ISREG(look(path).st_mode)
    except OSError:
        return False


def open_file(path: bytes) -> int:
    """A descriptor of a regular file, for reading. An OSError where it is anything else, or behind a link."""
    with folder_of(path) as folder:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(os.path.basename(path), flags, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is no file", os.fsdecode(path))
    return fd
