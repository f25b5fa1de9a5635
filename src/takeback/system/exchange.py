"""Replacing one version of a file by another in one step, only if the old one is what the caller expects.

Another process may write between our look and our step. So the new version is prepared beside the old one, the two
change places, and then we look at what came out (ADR 5). If it is not what we meant to replace, it goes back.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import NoReturn

from takeback.errors import ConflictError
from takeback.system import crash_points, durable, linux

STAGED = crash_points.crash_point("exchange-staged")
MOVED = crash_points.crash_point("exchange-moved")
LOOKED = crash_points.crash_point("exchange-looked")
GIVEN_BACK = crash_points.crash_point("exchange-given-back")


def exchange(path: Path, before: bytes | None, after: bytes | None) -> None:
    """Put `after` where `before` is, with the same mode. None stands for no file.

    Raise ConflictError if something else is there, and OSError if it cannot be done; in both cases the file is as
    others left it. A version of theirs that cannot go back to its place is kept beside it, and the error names it.
    """
    fd = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _Exchange(path, fd, before, after).carry_out()
    finally:
        os.close(fd)


class _Exchange:
    def __init__(self, path: Path, folder_fd: int, before: bytes | None, after: bytes | None) -> None:
        self.path, self.fd = path, folder_fd
        self.before, self.after = before, after
        self.name = os.fsencode(path.name)
        # Not a hidden name: after a kill, another process's version may be under it.
        self.aside = b"%s.takeback-%s" % (self.name, token_hex(4).encode())
        self.kept = False

    def carry_out(self) -> None:
        if self._content(self.name) != self.before:
            raise self._changed("; it was left as it is")
        if self.after is not None:
            self._stage(self.after)
        try:
            crash_points.reach(STAGED)
            self._move()
            crash_points.reach(MOVED)
            if self.before is not None and self._content(self.aside) != self.before:
                self._give_back()
            crash_points.reach(LOOKED)
        finally:
            self._tidy()

    def _stage(self, data: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        new = self.before is None
        fd = os.open(self.aside, flags, 0o666 if new else 0o600, dir_fd=self.fd)
        try:
            if not new:
                old = os.stat(self.name, dir_fd=self.fd, follow_symlinks=False)
                os.fchmod(fd, stat.S_IMODE(old.st_mode))
            durable.write_all(fd, data)
            durable.fsync(fd)
        except BaseException:
            with suppress(OSError):
                os.unlink(self.aside, dir_fd=self.fd)
            raise
        finally:
            os.close(fd)

    def _move(self) -> None:
        """Move our version to its place, and what was there aside."""
        try:
            if self.before is None:
                self._rename(self.aside, self.name, linux.RENAME_NOREPLACE)
            elif self.after is None:
                self._rename(self.name, self.aside, linux.RENAME_NOREPLACE)
            else:
                self._rename(self.aside, self.name, linux.RENAME_EXCHANGE)
        except (FileExistsError, FileNotFoundError):
            raise self._changed("; it was left as it is") from None
        except OSError as error:
            if error.errno == errno.EINVAL:
                error.strerror = "its file system cannot swap two files in one step"
            raise

    def _give_back(self) -> NoReturn:
        """Put back what came out: another process wrote it at the last moment."""
        beside = self.path.with_name(os.fsdecode(self.aside))
        self.kept = True
        try:
            flag = linux.RENAME_NOREPLACE if self.after is None else linux.RENAME_EXCHANGE
            self._rename(self.aside, self.name, flag)
        except OSError:
            raise self._changed(f", twice; the first of these versions is kept as {beside}") from None
        self.kept = self.after is not None and self._content(self.aside) != self.after
        crash_points.reach(GIVEN_BACK)
        if self.kept:
            raise self._changed(f", twice; the last of these versions is kept as {beside}")
        raise self._changed("; it was left as it is")

    def _tidy(self) -> None:
        """Remove our own version that is aside. Anything else there belongs to another process and stays."""
        if not self.kept and self._content(self.aside) in {self.before, self.after} - {None}:
            with suppress(OSError):
                os.unlink(self.aside, dir_fd=self.fd)

    def _rename(self, name: bytes, to: bytes, flag: int) -> None:
        linux.renameat2(self.fd, name, self.fd, to, flag)

    def _content(self, name: bytes) -> bytes | None:
        """Return the content of a file; None if it is not a readable regular file. A link does not count."""
        try:
            with open(os.fsdecode(name), "rb", opener=self._open) as file:
                return file.read() if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
        except OSError:
            return None

    def _open(self, name: str, flags: int) -> int:
        # Non-blocking: someone may have put a pipe there.
        return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.fd)

    def _changed(self, how_it_is: str) -> ConflictError:
        return ConflictError(f"{self.path} has changed meanwhile{how_it_is}", hint="try again")
