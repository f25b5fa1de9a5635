"""Taking an image of a database that others may be writing, without disturbing them.

SQLite itself reads it, in one transaction. What a crash left to recover (a hot journal, a log without its index) is
recovered in a copy, never in the user's files: the next program that opens the database does that there.
"""

from __future__ import annotations

import errno
import os
import random
import time
from pathlib import Path
from urllib.parse import quote

import apsw
import msgspec

from takeback.resources.sqlite import damaged
from takeback.resources.sqlite.image import (
    HEADER_BYTES,
    SUFFIXES,
    Image,
    digest_of,
    is_header,
    is_wal,
    normalize,
    volatile,
)
from takeback.system import crash_points
from takeback.system.beneath import is_file, is_other, look, open_file

READ_WAIT_S = 5.0
LOCKED = "another process has locked it for too long; try again when that process is done"
_POLL_S = 0.02
_NO_FILE = (errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EINVAL, errno.ENXIO)
"""Errors for a folder, a link and the like: waiting does not turn them into a file."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
_TRIES_MAX = 200
TICK_NS = 20_000_000
"""Times on disk advance in ticks of up to 10 ms; a file younger than two of them may change again unnoticed."""

COPYING = crash_points.crash_point("sqlite-copying")
COPIED = crash_points.crash_point("sqlite-copied")

_WAL, _SHM, _JOURNAL = SUFFIXES


class Taken(msgspec.Struct, frozen=True):
    """An image, or why there is none. Both for a damaged database."""

    image: Image | None = None
    problem: str = ""
    no_room: bool = False
    """Whether the disk was too full for an image."""


class _ChangedWhileRead(Exception):
    """The database changed while it was being read."""


def take(path: bytes, to: bytes, wait_s: float | None = None) -> Taken:
    """Write the image of a database into an empty file."""
    deadline = time.monotonic() + (READ_WAIT_S if wait_s is None else wait_s)
    while True:
        try:
            return _take(path, to)
        except FileNotFoundError:
            return Taken(problem="it is gone")
        except (apsw.BusyError, apsw.LockedError, apsw.ProtocolError):
            problem = LOCKED
        except (OSError, apsw.FullError) as error:
            if found := _for_good(error, path, to):
                return found
            problem = f"it cannot be read: {error}"
        except _ChangedWhileRead:
            problem = "it kept changing while it was being read"
        except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError, apsw.PermissionsError) as error:
            problem = f"it cannot be read: {error}"
        except (apsw.CorruptError, apsw.NotADBError) as error:
            return Taken(damaged.keep(path, to), f"it is damaged: {error}")
        except apsw.Error as error:
            return Taken(problem=f"SQLite cannot read it: {error}")
        if time.monotonic() > deadline:
            return Taken(problem=problem)
        time.sleep(_POLL_S)


def is_full(error: OSError | apsw.Error) -> bool:
    """Tell whether something failed because the disk is full."""
    return isinstance(error, apsw.FullError) or (isinstance(error, OSError) and error.errno in _FULL)


def in_words(error: OSError | apsw.Error) -> str:
    """Return why something failed; a full disk by what helps."""
    if is_full(error):
        return "the disk has no room for a copy of it; free some and try again"
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _for_good(error: OSError | apsw.Error, path: bytes, to: bytes) -> Taken | None:
    """Return why there is no image, where trying again would not help."""
    if is_full(error):
        disk = os.statvfs(os.path.dirname(to))
        needed, free = look(path).st_size / 1e6, disk.f_bavail * disk.f_frsize / 1e6
        why = f"the disk has no room for a copy of it ({needed:.1f} MB, and {free:.1f} MB are free)"
        return Taken(problem=why, no_room=True)
    if isinstance(error, OSError) and error.errno in _NO_FILE:
        return Taken(problem=f"it is no longer a file: {error.strerror}")
    return None


def is_locked(path: bytes, wait_s: float) -> bool:
    """Return True if some process keeps all others out for that long."""
    if is_file(path + _WAL) or not is_file(path) or is_wal(_header(path)):
        return False  # a log lets readers in
    deadline = time.monotonic() + wait_s
    while _is_busy(path):
        if time.monotonic() > deadline:
            return True
        time.sleep(_POLL_S)
    return False


def _is_busy(path: bytes) -> bool:
    try:
        db = connect(path, write=False)
        try:
            db.execute("BEGIN")
            db.pragma("schema_version")
        finally:
            db.close(True)
    except (apsw.BusyError, apsw.LockedError):
        return True
    except apsw.Error:
        # Reading it will report the problem.
        return False
    return False


def tables(path: bytes) -> dict[str, list[str]] | None:
    """Return the tables of a database with their columns; None if only a copy of it could be read, or nothing.

    A view or trigger counts as a table without columns.
    """
    try:
        if is_wal(_header(path)) and not (is_file(path + _WAL) and is_file(path + _SHM)):
            return None  # opened normally, it would get files beside it
        if is_other(path + _WAL) or is_other(path + _JOURNAL):
            return None
        return _tables(connect(path, write=False))
    except (OSError, apsw.Error):
        return None


def tables_in(image: bytes) -> dict[str, list[str]]:
    """Return the same of an image, which no one else writes; nothing if SQLite does not understand it."""
    try:
        return _tables(connect(image, write=False, more="?immutable=1"))
    except apsw.Error:
        return {}


def _tables(db: apsw.Connection) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    try:
        with db:  # one transaction: all names and columns are those of one moment
            names = db.execute("SELECT type, name FROM sqlite_schema WHERE type <> 'index'").fetchall()
            for kind, name in names:
                columns = db.execute("SELECT name FROM pragma_table_xinfo(?)", (name,)).fetchall()
                found[str(name)] = [str(column) for (column,) in columns] if kind == "table" else []
    finally:
        db.close(True)
    return found


def _take(path: bytes, to: bytes) -> Taken:
    header = _header(path)
    if not is_header(header):
        return Taken(problem="it is no longer a database")
    os.truncate(to, 0)
    if is_wal(header) and not is_file(path + _WAL):
        _copy_quiet(path, to)
    elif (is_wal(header) and not is_file(path + _SHM)) or is_other(path + _WAL) or is_other(path + _JOURNAL):
        _copy_recovered(path, to)
    else:
        try:
            copy(connect(path, write=False), to)
        except (apsw.ReadOnlyError, apsw.CantOpenError):
            # The last writer died in the middle of a write, or this user may not write beside it.
            _copy_recovered(path, to)
    crash_points.reach(COPIED)
    image = finish(to, header)
    if not damaged.beside(path):
        _refuse_unsound(to)
    return Taken(image)


def _refuse_unsound(copied: bytes) -> None:
    """Raise CorruptError if SQLite can copy the pages but cannot use them."""
    db = apsw.Connection(uri(copied, "?immutable=1"), flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        db.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    except apsw.SQLError:
        # Not understood does not mean damaged.
        return
    finally:
        db.close(True)


def _header(path: bytes) -> bytes:
    fd = open_file(path)
    try:
        return os.pread(fd, HEADER_BYTES, 0)
    finally:
        os.close(fd)


def finish(to: bytes, header: bytes) -> Image:
    """Turn a copy into an image."""
    fd = os.open(to, os.O_RDWR | os.O_CLOEXEC)
    try:
        wal = is_wal(os.pread(fd, HEADER_BYTES, 0))
        normalize(fd)
        return Image(digest_of(fd), os.fstat(fd).st_size, wal, volatile(header))
    finally:
        os.close(fd)


def connect(path: bytes, *, write: bool, more: str = "") -> apsw.Connection:
    """Return a connection that follows no links, and does not checkpoint when it is closed for reading."""
    flags = apsw.SQLITE_OPEN_READWRITE if write else apsw.SQLITE_OPEN_READONLY
    db = apsw.Connection(uri(path, more), flags=flags | apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_NOFOLLOW)
    db.set_busy_handler(_patience)
    if not write:
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    return db


def _patience(tries: int) -> bool:
    """Retry soon, after a random delay: SQLite's own back-off sleeps ever longer, and misses short gaps."""
    time.sleep(random.uniform(0.2e-3, 2e-3))
    return tries < _TRIES_MAX


def uri(path: bytes, more: str = "") -> str:
    # Percent-encoded, because a path may contain bytes that are not valid text.
    return f"file:{quote(path)}{more}"


def copy(source: apsw.Connection, to: bytes) -> None:
    """Copy every page as of one moment, and close the connection."""
    try:
        source.execute("BEGIN")
        source.pragma("schema_version")  # the first access: from here on our view does not change
        crash_points.reach(COPYING)
        pages(source, to)
    finally:
        source.close(True)


def pages(source: apsw.Connection, to: bytes) -> None:
    """Copy every page, as seen by a connection in a transaction."""
    target = apsw.Connection(os.fsdecode(to), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        target.pragma("journal_mode", "off")
        target.pragma("synchronous", "off")
        with target.backup("main", source, "main") as backup:
            backup.step(-1)
    finally:
        target.close(True)


def _copy_quiet(path: bytes, to: bytes) -> None:
    """Copy a WAL database that no process has open: opened normally, it would get files beside it."""
    before = _quiet_stat(path)
    copy(connect(path, write=False, more="?immutable=1"), to)
    if is_file(path + _WAL) or _stat(path) != before:
        raise _ChangedWhileRead


def _copy_recovered(path: bytes, to: bytes) -> None:
    """Copy the files while no process touches them, and let SQLite recover the copy."""
    beside = [suffix for suffix in (_WAL, _JOURNAL) if is_file(path + suffix)]
    names = [path, *(path + suffix for suffix in beside)]
    before = [_quiet_stat(name) for name in names]
    recovered = to + b".recovered"
    copies = [recovered, *(recovered + suffix for suffix in beside)]
    try:
        for name, copied in zip(names, copies, strict=True):
            fd = os.open(copied, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as out, os.fdopen(open_file(name), "rb") as file:
                while data := file.read(1 << 20):
                    out.write(data)
        if [_stat(name) for name in names] != before:
            raise _ChangedWhileRead
        copy(connect(recovered, write=True), to)
    finally:
        for name in (recovered, *(recovered + suffix for suffix in SUFFIXES)):
            Path(os.fsdecode(name)).unlink(missing_ok=True)


def _quiet_stat(path: bytes) -> tuple[int, ...]:
    """Return when a file was last written, if that is long enough ago to be distinguished from the next write."""
    found = _stat(path)
    if time.time_ns() - found[-1] < TICK_NS:
        raise _ChangedWhileRead
    return found


def _stat(path: bytes) -> tuple[int, ...]:
    # Not the ctime: SQLite running as root changes it when it looks into a log or a journal.
    found = look(path)
    return found.st_ino, found.st_size, found.st_mtime_ns
