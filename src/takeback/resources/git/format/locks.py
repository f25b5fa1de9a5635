"""Writing into a repository as git does: under `NAME.lock`, compared once more, renamed over the old file.

A lock is created as a hard link to a file of ours, so that it is recognised by its inode after a crash: the next
attempt removes its own locks, and never those of another process.
"""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from takeback.errors import BackendError
from takeback.resources.git.look.scan import OWN
from takeback.system import crash_points, durable

WAIT_S = 3.0
POLL_S = 0.02

HELD = crash_points.crash_point("git-lock-held")
WRITTEN = crash_points.crash_point("git-lock-written")
RENAMED = crash_points.crash_point("git-lock-renamed")

_numbers = itertools.count()


class Locked(BackendError):
    """Another process holds a lock of the repository; nothing was changed there."""

    code = "locked"


class GitLock:
    """One `NAME.lock` of ours."""

    def __init__(self, folder: bytes, path: bytes) -> None:
        self.path = path
        self.name = path + b".lock"
        self._own = os.path.join(folder, OWN + b"%d-%d" % (os.getpid(), next(_numbers)))
        self._fd = -1

    def take(self) -> None:
        """Take the lock. Wait a short while if another process has it; then raise Locked."""
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        self._fd = os.open(self._own, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                os.link(self._own, self.name)
                crash_points.reach(HELD)
                return
            except FileExistsError:
                if time.monotonic() > deadline:
                    self.drop()
                    raise Locked(
                        f"{os.fsdecode(self.name)} exists: another git process is at work, or died there",
                        hint="wait for it to end; if none is running, remove that file, and try again",
                    ) from None
                time.sleep(POLL_S)
            except FileNotFoundError:
                # Git removes empty folders of refs.
                os.makedirs(os.path.dirname(self.path), exist_ok=True)
            except OSError:
                self.drop()
                raise

    def replace(self, data: bytes, mode: int = 0, mtime_ns: int = 0) -> None:
        """Replace the file by this content, and release the lock."""
        _fill(self._fd, data, mode or _mode(self.path), mtime_ns)
        crash_points.reach(WRITTEN)
        remove_empty(self.path)
        os.rename(self.name, self.path)
        crash_points.reach(RENAMED)
        self.drop()

    def put_beside(self, path: bytes, data: bytes, mode: int) -> None:
        """Replace another file that this lock also guards by this content. The lock stays."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        new = self._own + b"-beside"
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            _fill(fd, data, mode, 0)
        finally:
            os.close(fd)
        remove_empty(path)
        os.rename(new, path)

    def drop(self) -> None:
        """Release the lock, whatever was done."""
        if self._fd < 0:
            return
        inode = os.fstat(self._fd).st_ino
        os.close(self._fd)
        self._fd = -1
        try:
            if os.lstat(self.name).st_ino == inode:
                os.unlink(self.name)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                raise
        try:
            os.unlink(self._own)
        except FileNotFoundError:
            pass


def _fill(fd: int, data: bytes, mode: int, mtime_ns: int) -> None:
    durable.write_all(fd, data)
    if mode:
        os.fchmod(fd, mode)
    if mtime_ns:
        os.utime(fd, ns=(mtime_ns, mtime_ns))
    durable.fsync(fd)


def _mode(path: bytes) -> int:
    """Return the present mode: in a shared repository, others may write."""
    try:
        return stat.S_IMODE(os.lstat(path).st_mode)
    except OSError:
        return 0


@contextmanager
def held(folder: bytes, path: bytes) -> Iterator[GitLock]:
    """Hold the lock of a file of the repository at `folder`."""
    lock = GitLock(folder, path)
    lock.take()
    try:
        yield lock
    finally:
        lock.drop()


def free(folder: bytes, paths: Iterable[bytes]) -> int:
    """Remove locks on these files that an earlier attempt of ours left behind. Return how many there were."""
    try:
        names = [name for name in os.listdir(folder) if name.startswith(OWN)]
    except OSError:
        return 0
    own = [os.path.join(folder, name) for name in names]
    files = [path for path in own if os.path.isfile(path)]
    inodes = {os.lstat(path).st_ino for path in files}
    freed = 0
    for path in paths if inodes else ():
        try:
            if os.lstat(path + b".lock").st_ino in inodes:
                os.unlink(path + b".lock")
                freed += 1
        except OSError:
            continue
    for path in files:
        os.unlink(path)
    return freed


def clear(folder: bytes) -> None:
    """Remove our own folders: what was set aside is no longer needed once all swaps are done."""
    try:
        names = [name for name in os.listdir(folder) if name.startswith(OWN)]
    except OSError:
        return
    for name in names:
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def remove_empty(path: bytes) -> None:
    """Remove a folder that contains only empty folders, where a file should be."""
    if not os.path.isdir(path) or os.path.islink(path):
        return
    for folder, _, _ in os.walk(path, topdown=False):
        try:
            os.rmdir(folder)
        except OSError:
            return
