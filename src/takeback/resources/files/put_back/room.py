"""A full disk: the space reserved for it, and how files are looked at when their content cannot be stored."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from takeback.ports.content import BlobStore, Contents, StoredFile

RESERVE_BYTES = 256 << 10
"""Enough to record a rollback, and to store small files that were also changed."""

_SPARED_OF = 64
"""The disk must have this many times as much free space before some of it is reserved."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_DIGEST_BYTES = 32


class Reserve:
    """Space reserved on the disk of the state folder, so that an action that filled the disk can be taken back."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "reserve"
        self._held = False

    def hold(self) -> None:
        """Reserve the space, if there is plenty."""
        if self._held or self._path.exists() or self.free() < RESERVE_BYTES * _SPARED_OF:
            self._held = True
            return
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, RESERVE_BYTES)
        except OSError:
            # Without it a full disk is only harder to take back.
            self._path.unlink(missing_ok=True)
        finally:
            os.close(fd)
        self._held = True

    def release(self) -> None:
        """Give the space up, for the work that frees space."""
        with suppress(OSError):  # if it cannot be removed, it frees no space either
            self._path.unlink()
        self._held = False

    def release_if_tight(self) -> None:
        if self.free() < RESERVE_BYTES:
            self.release()

    def free(self) -> int:
        found = os.statvfs(self._folder)
        return found.f_bavail * found.f_frsize


class Frugal:
    """Contents that stores no more than there is space for, and otherwise fails like a full disk."""

    def __init__(self, contents: Contents, blobs: BlobStore, room: int) -> None:
        self._contents = contents
        self._blobs = blobs
        self._left = room

    def put(self, fd: int, size: int) -> bytes:
        name = self._contents.name(fd, size)
        if self._blobs.has(name[:_DIGEST_BYTES]):
            return name
        if size > self._left:
            raise OSError(errno.ENOSPC, "there is no space on the disk")
        self._left -= size
        return self._contents.put(fd, size)

    def put_many(self, files: Iterable[tuple[bytes, int]], _root_fd: int) -> Iterator[StoredFile]:
        """Store nothing here, so that each file is read with care, one by one."""
        for path, _ in files:
            yield StoredFile(path, b"", (0, 0, 0, 0, 0), is_plain=False)

    def name(self, fd: int, size: int) -> bytes:
        return self._contents.name(fd, size)

    def put_bytes(self, data: bytes) -> bytes:
        return self._contents.put_bytes(data)

    def write(self, name: bytes, size: int, fd: int, *, sparse: bool) -> None:
        self._contents.write(name, size, fd, sparse=sparse)

    def read(self, name: bytes, size: int) -> bytes:
        return self._contents.read(name, size)

    def blobs(self, name: bytes, size: int) -> Iterator[bytes]:
        return self._contents.blobs(name, size)
