"""The few calls that make bytes and names durable, each passing through a crash point."""

from __future__ import annotations

import os
from pathlib import Path

from takeback.system import crash_points


def fsync(fd: int) -> None:
    """Make a file's bytes survive a power cut."""
    crash_points.reach("disk-sync")
    os.fsync(fd)


def fdatasync(fd: int) -> None:
    """The same, without what only tells when it was written."""
    crash_points.reach("disk-sync")
    os.fdatasync(fd)


def sync_folder(path: str | bytes | os.PathLike[str]) -> None:
    """Make the names in a folder survive a power cut: a new or renamed file alone can be lost with it."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fsync(fd)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write every byte, or raise."""
    crash_points.reach("disk-write")
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


crash_points.crash_point("disk-sync")
crash_points.crash_point("disk-write")


_PRIVATE = 0o600
_datasync = getattr(os, "fdatasync", os.fsync)


def datasync(fd: int) -> None:
    """Make a file's bytes and length survive a power cut, without waiting for its times."""
    crash_points.reach("disk-sync")
    _datasync(fd)


def create(path: Path) -> int:
    """A new file that only its owner can read, open for appending."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, _PRIVATE)


def write_new(path: Path, data: bytes) -> None:
    """A whole new file, its bytes durable; its name is so after `faults.sync_folder`."""
    fd = create(path)
    try:
        write_all(fd, data)
        fsync(fd)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)


def replace(path: Path, data: bytes) -> None:
    """Put these bytes under this name: all of them or the old ones, also after a power cut."""
    temporary = path.with_suffix(".tmp")
    temporary.unlink(missing_ok=True)
    write_new(temporary, data)
    os.replace(temporary, path)
    sync_folder(path.parent)
