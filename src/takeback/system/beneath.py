"""Reaching paths below the root without ever leaving it.

Every folder is opened relative to the root, or to one above that is open, and never through a symbolic link: the
kernel is asked to refuse them, or else each name on the way is opened by itself. So a link planted while we work can
make us fail, but not write or read outside.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from takeback.errors import UsageError
from takeback.system import linux

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OPEN_FOLDERS_MAX = 512

FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class RootFolder:
    """The root of a tree, held open."""

    def __init__(self, root: str | bytes | os.PathLike[str]) -> None:
        try:
            self.fd = os.open(root, FOLDER_FLAGS)
        except OSError as error:
            raise UsageError(
                f"{os.fsdecode(root)} cannot be opened: {error.strerror}; nothing was done",
                hint="if it is your own, `chmod u+rwx` opens it again",
            ) from error
        self.root = os.fsencode(root)
        self.device = os.fstat(self.fd).st_dev

    @classmethod
    def without_links(cls, path: bytes) -> RootFolder:
        """Open a folder by its absolute path, no part of which may be a link."""
        top = cls(b"/")
        if path.strip(b"/"):
            try:
                fd = top.open(path.strip(b"/"))
            finally:
                top.close()
            top.fd, top.root, top.device = fd, path, os.fstat(fd).st_dev
        return top

    def open(self, path: bytes) -> int:
        """Return a descriptor of the folder at this path; the caller closes it."""
        if path and (fd := linux.open_beneath(self.fd, path, FOLDER_FLAGS)) >= 0:
            return fd
        # One name at a time if the kernel cannot do it for us; or to get the exact error.
        fd = os.dup(self.fd)
        for name in path.split(b"/") if path else ():
            try:
                below = os.open(name, FOLDER_FLAGS, dir_fd=fd)
            finally:
                os.close(fd)
            fd = below
        return fd

    @contextmanager
    def batch(self) -> Iterator[OpenFolders]:
        """Open many folders, each from the nearest one that is open already."""
        folders = OpenFolders(self)
        try:
            yield folders
        finally:
            folders.close()

    @contextmanager
    def folder(self, path: bytes) -> Iterator[int]:
        fd = self.open(path)
        try:
            yield fd
        finally:
            os.close(fd)

    def has(self, path: bytes) -> bool:
        """Return whether anything is at this path."""
        above, _, name = path.rpartition(b"/")
        try:
            with self.folder(above) as fd:
                os.stat(name or b".", dir_fd=fd, follow_symlinks=False)
        except OSError:
            return False
        return True

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class OpenFolders:
    """Folders that stay open for a batch of work. The descriptors belong to the batch."""

    def __init__(self, place: RootFolder) -> None:
        self._place = place
        self._fds: dict[bytes, int] = {}

    def __call__(self, path: bytes) -> int:
        """Return a descriptor of the folder at this path."""
        fd = self._fds.get(path)
        if fd is not None:
            return fd
        if len(self._fds) >= OPEN_FOLDERS_MAX:
            self.close()
        try:
            fd = self._open(path)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._fds:
                raise
            self.close()
            fd = self._open(path)
        self._fds[path] = fd
        return fd

    def keep(self, path: bytes, fd: int) -> None:
        """Take over a descriptor of the folder at this path. None of the others is closed for it."""
        if len(self._fds) >= OPEN_FOLDERS_MAX:
            os.close(fd)
            return
        if (earlier := self._fds.pop(path, -1)) >= 0:
            os.close(earlier)
        self._fds[path] = fd

    def _open(self, path: bytes) -> int:
        above, _, name = path.rpartition(b"/")
        if path and (fd := self._fds.get(above)) is not None:
            return os.open(name, FOLDER_FLAGS, dir_fd=fd)
        return self._place.open(path)

    def close(self) -> None:
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()


_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def folder_of(path: bytes) -> Iterator[int]:
    """Yield a descriptor of the folder that contains this absolute path. Raise OSError if a link is on the way."""
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
    """Return the stat of an absolute path. Raise OSError if nothing is there, or a link is on the way."""
    with folder_of(path) as folder:
        return os.stat(os.path.basename(path), dir_fd=folder, follow_symlinks=False)


def is_file(path: bytes) -> bool:
    """Return whether there is a regular file, not behind a link."""
    try:
        return stat.S_ISREG(look(path).st_mode)
    except OSError:
        return False


def is_empty(path: bytes) -> bool:
    """Return whether there is an empty regular file, not behind a link."""
    try:
        return is_file(path) and not look(path).st_size
    except OSError:
        return False


def is_lone(path: bytes) -> bool:
    """Return whether there is a file without other hard links."""
    try:
        return look(path).st_nlink == 1
    except OSError:
        return False


def is_other(path: bytes) -> bool:
    """Return whether there is something other than a regular file."""
    try:
        return not stat.S_ISREG(look(path).st_mode)
    except OSError:
        return False


def open_file(path: bytes) -> int:
    """Open a regular file for reading. Raise OSError if it is anything else, or behind a link."""
    with folder_of(path) as folder:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(os.path.basename(path), flags, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a regular file", os.fsdecode(path))
    return fd
