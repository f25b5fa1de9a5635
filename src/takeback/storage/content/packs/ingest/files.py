"""Reading files into a store: each as it was at one moment, or reported as changing too fast."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator

import msgspec

from takeback.storage.content.file_content import WHOLE_BYTES_MAX, Content, Put, put_file

ATTEMPTS_MAX = 3

# O_NONBLOCK, so that a fifo put in a file's place cannot block us.
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class FileKey(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What distinguishes one state of a file from another without reading it."""

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
    """The result of reading one path.

    `before` and `after` are the open file's keys before and after reading. If they differ, the file changed during
    every attempt, and the content is torn. Without content, `errno` says why; ENOTSUP means that it is not a
    regular file. Symbolic links among the path's folders are followed: a caller that must rule them out compares
    dev and ino with what it saw while walking. `is_plain` says that the file has no extended attributes: with the
    file open that is a quick question, and for most files it saves the long way by path.
    """

    path: bytes
    before: FileKey | None = None
    after: FileKey | None = None
    content: Content | None = None
    errno: int = 0
    is_plain: bool = False

    @property
    def torn(self) -> bool:
        return self.before != self.after


def ingest(paths: Iterable[bytes], root_fd: int | None, put: Put) -> Iterator[Ingested]:
    """Read these files, whose paths are absolute or relative to the folder `root_fd`.

    A file that fails does not stop the others. Errors of `put` are raised: they concern all files.
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
    is_plain = False
    try:
        for _ in range(ATTEMPTS_MAX):
            before = FileKey.of(os.fstat(fd))
            if not stat.S_ISREG(before.mode):
                return Ingested(path, before, before, errno=errno.ENOTSUP)
            content = _store(fd, before.size, put)
            is_plain = _is_plain(fd)
            after = FileKey.of(os.fstat(fd))
            if after == before:
                break
    except OSError as error:
        return Ingested(path, errno=error.errno or errno.EIO)
    return Ingested(path, before, after, content, is_plain=is_plain)


def _is_plain(fd: int) -> bool:
    """Return True if the file certainly has no extended attributes."""
    try:
        return not os.listxattr(fd)
    except (OSError, AttributeError):  # macOS has no such function
        return False


def _store(fd: int, size: int, put: Put) -> Content:
    if size > WHOLE_BYTES_MAX:
        return put_file(put, fd, size)
    # One byte more than expected, to notice a file that grew. Not much more: a huge buffer is slow.
    data = os.pread(fd, size + 1, 0)
    return Content(put(data), len(data))
