"""Reading files into a store, each as one moment of it, or saying that it would not hold still."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator

import msgspec

from takeback.storage.content.file_content import WHOLE_BYTES_MAX, Content, Put, put_file

ATTEMPTS_MAX = 3

# O_NONBLOCK, so that a fifo put in a file's place cannot hang us.
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class FileKey(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What tells one state of a file from another without reading it."""

    dev: int
    ino: int
    size: int
    mtime_ns: int
    ctime_ns: int
    mode: int

    @classmethod
    def of(cls, found: os.stat_result) -> FileKey:
        return cls(
            found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode
        )


class Ingested(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What was read of one path.

    `before` and `after` are the open file's keys around the reading. Where they differ it changed in each of
    several attempts, and the content is torn. Without content, `errno` says why; ENOTSUP means that it is no
    file. The path's folders are followed as they are: a caller that fears a link among them compares dev and
    ino with what it saw when it walked there.
    """

    path: bytes
    before: FileKey | None = None
    after: FileKey | None = None
    content: Content | None = None
    errno: int = 0

    @property
    def torn(self) -> bool:
        return self.before != self.after


def ingest(paths: Iterable[bytes], root_fd: int | None, put: Put) -> Iterator[Ingested]:
    """Read these files, whose paths are absolute or relative to the folder `root_fd`.

    One that fails stops no other. Errors of `put` are raised: they concern all of them.
    """
    return (ingest_one(path, root_fd, put) for path in paths)


def ingest_one(path: bytes, root_fd: int | None, put: Put) -> Ingested:
    """Read one file."""
    try:
        fd = os.open(path, _FLAGS, dir_fd=root_fd)
    except OSError as error:
        return Ingested(path, errno=error.errno or errno.EIO)
    try:
        return _read(path, fd, put)
    finally:
        os.close(fd)


def _read(path: bytes, fd: int, put: Put) -> Ingested:
    before = after = content = None
    try:
        for _ in range(ATTEMPTS_MAX):
            before = FileKey.of(os.fstat(fd))
            if not stat.S_ISREG(before.mode):
                return Ingested(path, before, before, errno=errno.ENOTSUP)
            content = _store(fd, before.size, put)
            after = FileKey.of(os.fstat(fd))
            if after == before:
                break
    except OSError as error:
        return Ingested(path, errno=error.errno or errno.EIO)
    return Ingested(path, before, after, content)


def _store(fd: int, size: int, put: Put) -> Content:
    if size > WHOLE_BYTES_MAX:
        return put_file(put, fd, size)
    # One byte more than expected, so that a file that grew is seen. No more: a huge buffer is slow.
    data = os.pread(fd, size + 1, 0)
    return Content(put(data), len(data))
