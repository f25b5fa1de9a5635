"""Programs that have a file open for writing, or have mapped a part of it.

The kernel knows at once whether there is one, whichever user it belongs to: it grants a read lease (fcntl(2),
F_SETLEASE) only while no one can write to the file. Which program it is can be read in /proc, for programs of the
same user.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
from collections.abc import Collection, Iterator

try:
    import fcntl
except ImportError:  # not on this platform: then no writer is found
    fcntl = None  # type: ignore[assignment]

from takeback.system.beneath import FILE_FLAGS

_PROC = "/proc"
_WRITING = os.O_WRONLY | os.O_RDWR
_ANOTHER = "another program"


def may_be_written(fd: int) -> bool:
    """Return True if a process may have this file open for writing. `fd` is open for reading only."""
    return _lend(fd) is not True


class Writers:
    """The writers of files, looked up once for a batch."""

    def __init__(self) -> None:
        self._seen: set[int] | None = None

    def has(self, folder_fd: int, name: bytes) -> bool:
        """Return True if a process has this file open for writing; False for anything that is not a file."""
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
        """Return all files open for writing; for when the kernel cannot be asked about a single file."""
        if self._seen is None:
            self._seen = {ino for pid in _processes() for ino in (*_open_for_writing(pid), *_mappings(pid))}
        return self._seen


def named(ino: int) -> str:
    """Return who has a file open for writing, for people."""
    found = sorted(pid for pid in _processes() if ino in _open_for_writing(pid) or ino in _mappings(pid))
    return " and ".join(f"{_command(pid)} (process {pid})" for pid in found) or _ANOTHER


def mapped(inos: Collection[int]) -> set[int]:
    """Return which of these files a program has mapped for writing. Only its first write there changes a time."""
    found: set[int] = set()
    for pid in _processes() if inos else ():
        found.update(ino for ino in _mappings(pid) if ino in inos)
    return found


def _lend(fd: int) -> bool | None:
    """Return True if the kernel grants a read lease: no one can write to the file. None if it cannot be asked."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return None
    try:
        # A process that opens it at this very moment waits until we are done, and the kernel sends us a signal.
        # This one is ignored by default; the usual one would end us.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return False if error.errno == errno.EAGAIN else None
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return True


def _processes() -> Iterator[int]:
    """Yield all processes. Those of other users do not show what they have open."""
    try:
        yield from (int(name) for name in os.listdir(_PROC) if name.isdigit())
    except OSError:
        return


def _open_for_writing(pid: int) -> Iterator[int]:
    folder = f"{_PROC}/{pid}/fdinfo"
    for name in _listed(folder):
        fields = dict(line.split(b":", 1) for line in _read(f"{folder}/{name}").splitlines() if b":" in line)
        if int(fields.get(b"flags", b"0"), 8) & _WRITING:
            yield int(fields.get(b"ino", b"0")) or _number(f"{_PROC}/{pid}/fd/{name}")


def _mappings(pid: int) -> Iterator[int]:
    for line in _read(f"{_PROC}/{pid}/maps").splitlines():
        fields = line.split(None, 5)
        if len(fields) > 4 and fields[1][1:2] == b"w" and fields[1][3:4] == b"s":
            yield int(fields[4])


def _command(pid: int) -> str:
    return os.fsdecode(_read(f"{_PROC}/{pid}/comm")).strip() or _ANOTHER


def _number(path: str) -> int:
    """Return the inode, for a kernel whose fdinfo does not contain it."""
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
