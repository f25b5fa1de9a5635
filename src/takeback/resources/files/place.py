"""Reaching paths below the root without ever leaving it.

Every folder is opened one name at a time, relative to the one above, and never through a symbolic link. So a link
planted while we work can make us fail, but not write or read outside.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from takeback.errors import UsageError

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Place:
    """The root of a tree, held open."""

    def __init__(self, root: str | bytes | os.PathLike[str]) -> None:
        try:
            self.fd = os.open(root, FOLDER_FLAGS)
        except OSError as error:
            raise UsageError(f"{os.fsdecode(root)} cannot be opened: {error.strerror}") from error
        self.root = os.fsencode(root)
        self.device = os.fstat(self.fd).st_dev

    def open(self, path: bytes) -> int:
        """A descriptor of the folder at this path; the caller closes it."""
        fd = os.dup(self.fd)
        for name in path.split(b"/") if path else ():
            try:
                below = os.open(name, FOLDER_FLAGS, dir_fd=fd)
            finally:
                os.close(fd)
            fd = below
        return fd

    @contextmanager
    def folder(self, path: bytes) -> Iterator[int]:
        fd = self.open(path)
        try:
            yield fd
        finally:
            os.close(fd)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
