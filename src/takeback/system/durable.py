"""The few calls that make bytes and names durable, each passing through a crash point."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from takeback.system import crash_points


def fsync(fd: int) -> None:
    """Make a file's bytes survive a power cut."""
    crash_points.reach("disk-sync")
    os.fsync(fd)


def datasync(fd: int) -> None:
    """Make a file's bytes and length survive a power cut, without waiting for its times."""
    crash_points.reach("disk-sync")
    _datasync(fd)


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


def create(path: Path) -> int:
    """Create a file that only its owner can read, open for appending."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, _PRIVATE)


def write_new(path: Path, data: bytes) -> None:
    """Write a whole new file with durable bytes; its name is durable after `sync_folder`."""
    fd = create(path)
    try:
        write_all(fd, data)
        fsync(fd)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)


@contextmanager
def replacing(
    path: Path,
    *,
    temporary: Path | None = None,
    synced: bool = True,
    named: bool = True,
    over: bool = True,
) -> Iterator[int]:
    """Let the block write a private file, and put it under this name: whole, or the old one stays.

    With `synced` this holds even after a power cut; with `named` the new file is then certain to be there. Without
    `over` an existing file is left alone. Concurrent writers each get their own temporary name.
    """
    fresh = temporary or path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.new")
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _PRIVATE)
        try:
            yield fd
            if synced:
                fsync(fd)
        finally:
            os.close(fd)
        if over:
            os.replace(fresh, path)
        else:
            with suppress(FileExistsError):
                os.link(fresh, path)
            os.unlink(fresh)
    except BaseException:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise
    if named:
        sync_folder(path.parent)


def replace(
    path: Path,
    data: bytes,
    *,
    temporary: Path | None = None,
    synced: bool = True,
    named: bool = True,
    over: bool = True,
) -> None:
    """Put these bytes under this name, as `replacing` does."""
    with replacing(path, temporary=temporary, synced=synced, named=named, over=over) as fd:
        write_all(fd, data)
