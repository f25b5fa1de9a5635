"""Folders and files of the user's own that are closed even to them, opened for a moment.

Permissions bind everyone except root. What an agent hid with `chmod 000` must still be seen, and what it deleted
from a write-protected folder must come back. So such a path is opened, for its owner alone, and closed again as
soon as the work is done. A note in our state records how it was: if we are killed meanwhile, the next command
closes it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from takeback.resources.files.entry import depth, split
from takeback.system import crash_points, durable
from takeback.system.beneath import RootFolder

NOTED = crash_points.crash_point("door-noted")
OPENED = crash_points.crash_point("door-opened")


class Doors:
    """What is open at the moment, and how it was before."""

    def __init__(self, place: RootFolder, note: Path) -> None:
        self._place = place
        self._note = note
        self._modes: dict[bytes, int] = {}

    def open(self, path: bytes) -> None:
        """Open a folder to work in, or a file to read. Raise PermissionError if it is not ours to open."""
        with self._at(path) as fd:
            found = os.fstat(fd)
            mode = stat.S_IMODE(found.st_mode)
            rights = _rights(found)
            if mode & rights == rights or not _is_ours(found):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            self._write(path, mode)
            crash_points.reach(NOTED)
            # The kernel's own name for it works even though its mode lets no one in.
            os.chmod(f"/proc/self/fd/{fd}", mode | rights)
            crash_points.reach(OPENED)

    def forget(self, path: bytes) -> None:
        """Forget a path whose mode has been decided, so that it is not closed again."""
        self._modes.pop(path, None)

    def close(self) -> dict[bytes, os.stat_result]:
        """Close what is still open. Return the stat of each path afterwards."""
        found, left = {}, False
        # The deepest first: those above must be open to reach it.
        for path in sorted(self._modes, key=depth, reverse=True):
            try:
                found[path] = self._close(path, self._modes[path])
            except (FileNotFoundError, NotADirectoryError):
                # The path is gone, so there is nothing to close.
                continue
            except OSError:
                left = True
        self._modes.clear()
        if not left:
            # Otherwise the next command tries again.
            self._note.unlink(missing_ok=True)
        return found

    def recover(self) -> None:
        """Close what a killed process left open."""
        if not os.path.exists(self._note):
            return
        try:
            lines = self._note.read_text().split("\n")
        except OSError:
            return
        for line in lines[:-1]:  # an unfinished last line was written before anything was opened
            mode, _, path = line.partition(" ")
            self._modes.setdefault(bytes.fromhex(path), int(mode, 8))
        self.close()

    def _close(self, path: bytes, mode: int) -> os.stat_result:
        with self._at(path) as fd:
            # If its mode is not the one that we set, someone else has decided otherwise.
            found = os.fstat(fd)
            if stat.S_IMODE(found.st_mode) == mode | _rights(found):
                os.chmod(f"/proc/self/fd/{fd}", mode)
            return os.fstat(fd)

    @contextmanager
    def _at(self, path: bytes) -> Iterator[int]:
        """Yield a descriptor of the path itself, whether or not it can be opened."""
        above, name = split(path)
        if path:
            flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
            with self._place.folder(above) as above_fd:
                fd = os.open(name, flags, dir_fd=above_fd)
        else:
            fd = os.dup(self._place.fd)
        try:
            yield fd
        finally:
            os.close(fd)

    def _write(self, path: bytes, mode: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        fd = os.open(self._note, flags, 0o600)
        try:
            durable.write_all(fd, f"{mode:o} {path.hex()}\n".encode())
        finally:
            os.close(fd)
        self._modes[path] = mode


def _rights(found: os.stat_result) -> int:
    """Return the permissions that we need: to work in a folder, or to read a file."""
    if stat.S_ISDIR(found.st_mode):
        return stat.S_IRWXU
    return stat.S_IRUSR if stat.S_ISREG(found.st_mode) else 0


def _is_ours(found: os.stat_result) -> bool:
    """Return True if we may change its mode and restore it: the kernel drops a foreign group's set-gid bit."""
    strange = found.st_gid not in (os.getegid(), *os.getgroups())
    return found.st_uid == os.geteuid() and not (found.st_mode & stat.S_ISGID and strange)
