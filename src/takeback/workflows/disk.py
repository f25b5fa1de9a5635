"""Folders of checkpoints, reached from the root without following a link, and written so that a power cut
leaves the old file or the new one, whole."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from takeback.errors import BackendError, CorruptionError, RefusedError, RunBusy

FILE_BYTES_MAX = 1 << 20
LOCK_WAIT_S = 10.0
_POLL_S = 0.002
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def sync(fd: int) -> None:
    """Flush to the disk, to survive a power cut. On macOS fsync alone leaves data in the disk's own cache."""
    if sys.platform == "darwin":
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


class CheckpointFolder:
    """One open folder. Its files are opened relative to it, so that no other folder can be swapped in meanwhile."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd

    @classmethod
    def find(cls, root: str, *parts: str, create: bool = False) -> CheckpointFolder | None:
        """Return the folder at these parts below the root, or None if it is missing and `create` is false."""
        path, fd = root, -1
        try:
            fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            for part in parts:
                path = os.path.join(path, part)
                below = _enter(fd, part, create=create, private=part == parts[-1])
                os.close(fd)
                fd = below
                if fd < 0:
                    return None
        except OSError as error:
            if fd >= 0:
                os.close(fd)
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise RefusedError(
                    f"{path} is a link or not a folder; nothing was done",
                    hint="checkpoints are kept only in real folders of the workspace",
                ) from error
            raise failed(path, error) from error
        return cls(path, fd)

    def names(self) -> list[str]:
        return sorted(os.listdir(self.fd))

    def read(self, name: str) -> bytes:
        """Return the bytes of a file. Raise FileNotFoundError if it is missing, CorruptionError if it is unusable."""
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.fd)
        except FileNotFoundError:
            raise
        except OSError as error:
            link = error.errno == errno.ELOOP
            raise CorruptionError(
                "it is a link" if link else f"it cannot be read: {error.strerror}"
            ) from error
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise CorruptionError("it is not a regular file")
            if found.st_size > FILE_BYTES_MAX:
                raise CorruptionError("it is too large")
            return os.read(fd, FILE_BYTES_MAX + 1)
        except OSError as error:
            raise CorruptionError(f"it cannot be read: {error.strerror}") from error
        finally:
            os.close(fd)

    def modified_s(self, name: str) -> float:
        return os.stat(name, dir_fd=self.fd, follow_symlinks=False).st_mtime

    def write(self, name: str, data: bytes) -> None:
        """Replace a whole file. When this returns, it survives a power cut. Call it only under the lock."""
        fresh = f".{name}.tmp"
        try:
            self.remove(fresh)  # left by a writer that was killed
            fd = os.open(
                fresh,
                os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
                0o600,
                dir_fd=self.fd,
            )
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(fd, view) :]
                sync(fd)
            finally:
                os.close(fd)
            os.rename(fresh, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except OSError as error:
            try:
                self.remove(fresh)
            except OSError:
                pass
            raise failed(os.path.join(self.path, name), error) from error
        self.sync()  # without it, the power cut could take the new name away

    def sync(self) -> None:
        try:
            sync(self.fd)
        except OSError as error:
            raise BackendError(
                f"{self.path} was changed, but the disk did not confirm it ({error.strerror}); "
                "it may not survive a power cut",
                hint="check the disk, then repeat the command",
            ) from error

    def remove(self, name: str) -> None:
        try:
            os.unlink(name, dir_fd=self.fd)
        except FileNotFoundError:
            pass

    def move(self, name: str, there: CheckpointFolder, new_name: str) -> None:
        os.rename(name, new_name, src_dir_fd=self.fd, dst_dir_fd=there.fd)

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Hold a kernel lock for the length of one command; it ends with the process that holds it."""
        try:
            fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self.fd)
        except OSError as error:
            raise failed(os.path.join(self.path, name), error) from error
        try:
            deadline = time.monotonic() + LOCK_WAIT_S
            while not _try_lock(fd):
                if time.monotonic() > deadline:
                    raise RunBusy(
                        f"another process is writing in {self.path}; nothing was changed",
                        hint="try again when it is done",
                    )
                time.sleep(_POLL_S)
            yield
        finally:
            os.close(fd)

    def close(self) -> None:
        os.close(self.fd)


def _enter(fd: int, part: str, *, create: bool, private: bool) -> int:
    """Open the folder below and return its descriptor, or -1 if it is missing and `create` is false."""
    try:
        return os.open(part, _OPEN_FOLDER, dir_fd=fd)
    except FileNotFoundError:
        if not create:
            return -1
    try:
        os.mkdir(part, 0o700 if private else 0o777, dir_fd=fd)
        sync(fd)  # the new folder's name has to survive a power cut, like its content
    except FileExistsError:
        pass
    return os.open(part, _OPEN_FOLDER, dir_fd=fd)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def failed(path: str, error: OSError) -> BackendError:
    return BackendError(
        f"{path} cannot be written: {error.strerror or error}; nothing was changed",
        hint="check its permissions and the space on its disk, then repeat the command",
    )
