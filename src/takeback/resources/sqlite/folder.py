"""The folder of a database, opened without following any link: one that is planted while we work leads nowhere."""

from __future__ import annotations

import os
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
