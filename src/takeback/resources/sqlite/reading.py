"""Taking an image of a database that others may be writing, without disturbing them.

SQLite itself reads it, in one transaction. What a crash left to be mended (a hot journal, a log without its index)
is mended in a copy, never in the user's files: whoever opens the database next does that there.
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
LOCKED = "it has been locked by another process for too long; try again when that is done"
_POLL_S = 0.02
_NO_FILE = (errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EINVAL, errno.ENXIO)
"""What is said of a folder, a link and the like: waiting makes no file of them."""
_TRIES_MAX = 200
TICK_NS = 20_000_000
"""Times on disk move in ticks of up to 10 ms; what is younger than two of them may change again unseen."""

COPYING = crash_points.crash_point("sqlite-copying")
COPIED = crash_points.crash_point("sqlite-copied")

_WAL, _SHM, _JOURNAL = SUFFIXES


class Taken(msgspec.Struct, frozen=True):
    """An image, or why there is none. Of a damaged one both."""

    image: Image | None = None
    problem: str = ""


class _ChangedWhileRead(Exception):
    """It changed while it was being read."""


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
        except OSError as error:
            if error.errno in _NO_FILE:
                return Taken(problem=f"it is no file any more: {error.strerror}")
            problem = f"it cannot be read: {error}"
        except _ChangedWhileRead:
            problem = "it kept changing while it was read"
        except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError, apsw.PermissionsError) as error:
            problem = f"it cannot be read: {error}"
        except (apsw.CorruptError, apsw.NotADBError) as error:
            return Taken(damaged.keep(path, to), f"it is damaged: {error}")
        except apsw.Error as error:
            return Taken(problem=f"SQLite cannot read it: {error}")
        if time.monotonic() > deadline:
            return Taken(problem=problem)
        time.sleep(_POLL_S)


def is_locked(path: bytes, wait_s: float) -> bool:
    """Whether somebody keeps all others out, for that long."""
    if is_file(path + _WAL) or not is_file(path) or is_wal(_header(path)):
        return False  # readers are let in there
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
        # Whatever that is, it is told by reading it.
        return False
    return False


def _take(path: bytes, to: bytes) -> Taken:
    header = _header(path)
    if not is_header(header):
        return Taken(problem="it is not a database any more")
    os.truncate(to, 0)
    if is_wal(header) and not is_file(path + _WAL):
        _copy_quiet(path, to)
    elif (is_wal(header) and not is_file(path + _SHM)) or is_other(path + _WAL) or is_other(path + _JOURNAL):
        _copy_mended(path, to)
    else:
        try:
            copy(connect(path, write=False), to)
        except (apsw.ReadOnlyError, apsw.CantOpenError):
            # Whoever wrote last died in the middle of it, or this user may not write beside it.
            _copy_mended(path, to)
    crash_points.reach(COPIED)
    image = finish(to, header)
    if not damaged.beside(path):
        _refuse_unsound(to)
    return Taken(image)


def _refuse_unsound(copied: bytes) -> None:
    """A CorruptError where SQLite copies the pages and can do nothing else with them."""
    db = apsw.Connection(uri(copied, "?immutable=1"), flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        db.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    except apsw.SQLError:
        # Not understood is not damaged.
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
    """Make an image of a copy."""
    fd = os.open(to, os.O_RDWR | os.O_CLOEXEC)
    try:
        wal = is_wal(os.pread(fd, HEADER_BYTES, 0))
        normalize(fd)
        return Image(digest_of(fd), os.fstat(fd).st_size, wal, volatile(header))
    finally:
        os.close(fd)


def connect(path: bytes, *, write: bool, more: str = "") -> apsw.Connection:
    """A connection that follows no links, and does not tidy up when it is closed."""
    flags = apsw.SQLITE_OPEN_READWRITE if write else apsw.SQLITE_OPEN_READONLY
    db = apsw.Connection(uri(path, more), flags=flags | apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_NOFOLLOW)
    db.set_busy_handler(_patience)
    if not write:
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    return db


def _patience(tries: int) -> bool:
    """Look again soon, by chance: SQLite's own way is to sleep ever longer, and to miss the short gaps."""
    time.sleep(random.uniform(0.2e-3, 2e-3))
    return tries < _TRIES_MAX


def uri(path: bytes, more: str = "") -> str:
    # Percent-encoded, since a path may hold bytes that are no text.
    return f"file:{quote(path)}{more}"


def copy(source: apsw.Connection, to: bytes) -> None:
    """Every page as of one moment. Closes the connection."""
    try:
        source.execute("BEGIN")
        source.pragma("schema_version")  # the first look: from here on it stays as it is, for us
        crash_points.reach(COPYING)
        pages(source, to)
    finally:
        source.close(True)


def pages(source: apsw.Connection, to: bytes) -> None:
    """Every page, as a connection that is in a transaction sees them."""
    target = apsw.Connection(os.fsdecode(to), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        target.pragma("journal_mode", "off")
        target.pragma("synchronous", "off")
        with target.backup("main", source, "main") as backup:
            backup.step(-1)
    finally:
        target.close(True)


def _copy_quiet(path: bytes, to: bytes) -> None:
    """A database in WAL mode that nobody has open: opened in the usual way, it would get files beside it."""
    before = _quiet_stat(path)
    copy(connect(path, write=False, more="?immutable=1"), to)
    if is_file(path + _WAL) or _stat(path) != before:
        raise _ChangedWhileRead


def _copy_mended(path: bytes, to: bytes) -> None:
    """Copy the files while nobody touches them, and let SQLite mend the copy."""
    beside = [suffix for suffix in (_WAL, _JOURNAL) if is_file(path + suffix)]
    names = [path, *(path + suffix for suffix in beside)]
    before = [_quiet_stat(name) for name in names]
    mended = to + b".mended"
    copies = [mended, *(mended + suffix for suffix in beside)]
    try:
        for name, copied in zip(names, copies, strict=True):
            fd = os.open(copied, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as out, os.fdopen(open_file(name), "rb") as file:
                while data := file.read(1 << 20):
                    out.write(data)
        if [_stat(name) for name in names] != before:
            raise _ChangedWhileRead
        copy(connect(mended, write=True), to)
    finally:
        for name in (mended, *(mended + suffix for suffix in SUFFIXES)):
            Path(os.fsdecode(name)).unlink(missing_ok=True)


def _quiet_stat(path: bytes) -> tuple[int, ...]:
    """When a file was last written, if that is long enough ago to be told from the next time."""
    found = _stat(path)
    if time.time_ns() - found[-1] < TICK_NS:
        raise _ChangedWhileRead
    return found


def _stat(path: bytes) -> tuple[int, ...]:
    # Not the other time: SQLite moves that one when it looks into a log or a journal as root.
    found = look(path)
    return found.st_ino, found.st_size, found.st_mtime_ns
