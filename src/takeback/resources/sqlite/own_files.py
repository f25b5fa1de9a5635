"""Temporary files: images on their way into the store and out of it.

Also the descriptors through which this process has a file open.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from takeback.resources.sqlite.attributes import write as write_attributes
from takeback.system import durable
from takeback.system import durable as system_durable


class Scratch:
    """A folder for temporary files. The next process removes what a crash left in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def file(self) -> Iterator[bytes]:
        """Yield the path of an empty file, for the length of a block."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        fd, name = tempfile.mkstemp(prefix=f"{os.getpid()}-", dir=self._folder)
        os.close(fd)
        try:
            yield os.fsencode(name)
        finally:
            os.unlink(name)

    def tidy(self) -> None:
        """Remove what ended processes have left."""
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return
        for name in names:
            pid = name.partition("-")[0]
            if not pid.isdecimal() or not os.path.exists(f"/proc/{pid}"):
                (self._folder / name).unlink(missing_ok=True)


def write_private(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Replace a file atomically, readable by this user alone."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    system_durable.replace(path, data, temporary=temporary, synced=durable, named=False)


_FDS = "/proc/self/fd"


def descriptors(path: bytes, found: os.stat_result | None = None) -> list[int]:
    """Return the descriptors of this process that lead to a file, whichever code opened them."""
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
    """Return the first bytes of a file, without dropping locks that this process has on it."""
    for fd in descriptors(b"", found):
        try:
            return os.pread(fd, count, 0)
        except OSError:
            # Opened only for writing, or just closed.
            continue
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder_fd)
    try:
        return os.pread(fd, count, 0)
    finally:
        os.close(fd)


_CHUNK_BYTES = 1 << 20


def made(
    folder: int,
    image: bytes,
    mode: int,
    uid: int,
    gid: int,
    mtime_ns: int | None = None,
    attributes: Mapping[str, str] | None = None,
) -> int:
    """Return a descriptor of a new, unnamed file in an open folder, with the content of an image."""
    fd = os.open(".", os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        with open(image, "rb") as file:
            while data := file.read(_CHUNK_BYTES):
                durable.write_all(fd, data)
        if os.geteuid() == 0:
            os.fchown(fd, uid, gid)
        write_attributes(f"/proc/self/fd/{fd}", attributes or {})
        os.fchmod(fd, mode)
        if mtime_ns is not None:
            os.utime(fd, ns=(mtime_ns, mtime_ns))
        durable.fsync(fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def named(fd: int, name: bytes, folder: int) -> None:
    """Give the file a name that does not exist yet."""
    # Given a folder, Python asks the kernel to follow the link, so that the name leads to this very file.
    os.link(f"/proc/self/fd/{fd}", name, src_dir_fd=fd, dst_dir_fd=folder, follow_symlinks=True)
