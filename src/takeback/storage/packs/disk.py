"""The few calls that make bytes and names durable, each passing through `takeback.faults`."""

from __future__ import annotations

import os
from pathlib import Path

from takeback import faults

_PRIVATE = 0o600
_datasync = getattr(os, "fdatasync", os.fsync)


def datasync(fd: int) -> None:
    """Make a file's bytes and length survive a power cut, without waiting for its times."""
    faults.reach("disk-sync")
    _datasync(fd)


def create(path: Path) -> int:
    """A new file that only its owner can read, open for appending."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, _PRIVATE)


def write_new(path: Path, data: bytes) -> None:
    """A whole new file, its bytes durable; its name is so after `faults.sync_folder`."""
    fd = create(path)
    try:
        faults.write_all(fd, data)
        faults.fsync(fd)
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
    faults.sync_folder(path.parent)
