"""Files of our own for a moment: images on their way into the store and out of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from takeback import faults


class Scratch:
    """A folder for them. What a crash left in it is removed by the next process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def file(self) -> Iterator[bytes]:
        """The path of an empty file, for the length of a block."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        fd, name = tempfile.mkstemp(prefix=f"{os.getpid()}-", dir=self._folder)
        os.close(fd)
        try:
            yield os.fsencode(name)
        finally:
            os.unlink(name)

    def tidy(self) -> None:
        """Remove what processes that are gone have left."""
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return
        for name in names:
            pid = name.partition("-")[0]
            if not pid.isdecimal() or not os.path.exists(f"/proc/{pid}"):
                (self._folder / name).unlink(missing_ok=True)


def write_private(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Replace a file as a whole, for this user alone."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        faults.write_all(fd, data)
        if durable:
            faults.fsync(fd)
    finally:
        os.close(fd)
    os.rename(temporary, path)
