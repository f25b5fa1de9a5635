"""Programs that have a file open for writing, or a part of it in their memory.

The kernel says at once whether somebody has, whoever that is: it lends a file (fcntl(2), F_SETLEASE) only while
nobody can write to it. Who it is stands in /proc, of the programs of the same user.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
from collections.abc import Collection, Iterator

try:
    import fcntl
except ImportError:  # no such thing on this platform: then nobody is found
    fcntl = None  # type: ignore[assignment]

from takeback.system.beneath import FILE_FLAGS

_PROC = "/proc"
_WRITING = os.O_WRONLY | os.O_RDWR
_ANOTHER = "another program"


def may_be_written(fd: int) -> bool:
    """Whether somebody may have this file open for writing. `fd` is open for reading only."""
    return _lend(fd) is not True


class Writers:
    """Who writes to files, looked up once for a batch of them."""

    def __init__(self) -> None:
        self._seen: set[int] | None = None

    def has(self, folder_fd: int, name: bytes) -> bool:
        """Whether anybody has this file open for writing; what is not a file, nobody has."""
        try:
            found = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
        except OSError:
            return False
        if not stat.S_ISREG(found.st_mode):
            return False
        try:
            fd = os.open(name, FILE_FLAGS, dir_fd=folder_fd)
        except OSError:
            return found.st_ino in self._all()  # closed to us
        try:
            lent = _lend(fd)
        finally:
            os.close(fd)
        return not lent if lent is not None else found.st_ino in self._all()

    def _all(self) -> set[int]:
        """Where the kernel cannot be asked about one file."""
        if self._seen is None:
            self._seen = {ino for pid in _processes() for ino in (*_open_for_writing(pid), *_mappings(pid))}
        return self._seen


def named(ino: int) -> str:
    """Who has a file open for writing, for people."""
    found = sorted(pid for pid in _processes() if ino in _open_for_writing(pid) or ino in _mappings(pid))
    return " and ".join(f"{_command(pid)} (process {pid})" for pid in found) or _ANOTHER


def mapped(inos: Collection[int]) -> set[int]:
    """Which of these files a program can write to in its memory. Only its first write there moves a time."""
    found: set[int] = set()
    for pid in _processes() if inos else ():
        found.update(ino for ino in _mappings(pid) if ino in inos)
    return found


def _lend(fd: int) -> bool | None:
    """Whether the kernel lends a file, and so nobody can write to it; None where it cannot be asked."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return None
    try:
        # Whoever opens it in this very moment waits until we are done, and the kernel tells us by a signal.
        # This one does nothing unless somebody asked for it; the usual one would end us.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return False if error.errno == errno.EAGAIN else None
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return True


def _processes() -> Iterator[int]:
    """Those of other users do not show what they have open."""
    try:
        yield from (int(name) for name in os.listdir(_PROC) if name.isdigit())
    except OSError:
        return


def _open_for_writing(pid: int) -> Iterator[int]:
    folder = f"{_PROC}/{pid}/fdinfo"
    for name in _listed(folder):
        told = dict(line.split(b":", 1) for line in _read(f"{folder}/{name}").splitlines() if b":" in line)
        if int(told.get(b"flags", b"0"), 8) & _WRITING:
            yield int(told.get(b"ino", b"0")) or _number(f"{_PROC}/{pid}/fd/{name}")


def _mappings(pid: int) -> Iterator[int]:
    for line in _read(f"{_PROC}/{pid}/maps").splitlines():
        fields = line.split(None, 5)
        if len(fields) > 4 and fields[1][1:2] == b"w" and fields[1][3:4] == b"s":
            yield int(fields[4])


def _command(pid: int) -> str:
    return os.fsdecode(_read(f"{_PROC}/{pid}/comm")).strip() or _ANOTHER


def _number(path: str) -> int:
    """For a kernel that does not tell it besides."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        # Gone meanwhile, or another user's.
        return []


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
