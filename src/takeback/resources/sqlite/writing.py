"""Putting a database back under SQLite's own locks, so that programs that have it open notice."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

import apsw

from takeback.core.codec import text_of
from takeback.resources.sqlite import own_files, rows
from takeback.resources.sqlite.image import HEADER_BYTES, SUFFIXES, ImageData, is_wal
from takeback.resources.sqlite.own_files import descriptors
from takeback.resources.sqlite.reading import connect, finish, in_words, pages
from takeback.resources.sqlite.schema import Clash, objects, value
from takeback.system import crash_points, durable
from takeback.system.beneath import folder_of

WRITE_WAIT_S = 10.0
_POLL_S = 0.02
_SHM_HEADER_BYTES = 96

EXPECTED = crash_points.crash_point("sqlite-expected")
WRITING = crash_points.crash_point("sqlite-writing")
WRITTEN = crash_points.crash_point("sqlite-written")
MOVING = crash_points.crash_point("sqlite-moving")
MAKING = crash_points.crash_point("sqlite-making")
REMOVING = crash_points.crash_point("sqlite-removing")
EMPTYING = crash_points.crash_point("sqlite-emptying")
EMPTIED = crash_points.crash_point("sqlite-emptied")

MOVED = "it was changed since the plan was made"


TAKEN = "something else is in its place"


class _WrittenMeanwhile(Exception):
    """Someone else wrote to the database."""


def put(path: bytes, image: bytes, expected: str, scratch: bytes, *, wal: bool) -> str:
    """Make a database equal to an image, if it still is as expected. Return why not if that fails.

    `scratch` is the path of an empty file.
    """
    return _patiently(lambda: _put(path, image, expected, scratch, wal=wal))


def move(path: bytes, base: bytes, goal: bytes) -> str:
    """Apply the difference between two images to a database that others keep writing to.

    Return why not if that fails.
    """
    return _patiently(lambda: _move(path, base, goal))


def remove(path: bytes, expected: str, scratch: bytes, visible: bytes) -> str:
    """Remove a database with all files beside it, if it still is as expected. Return why not if that fails.

    In WAL mode a program that has it open would go on writing to a deleted file. Then the database is moved to the
    folder `visible`, and the returned text says so.
    """
    return _patiently(lambda: _remove(path, expected, scratch, visible))


def empty(path: bytes, expected: str, scratch: bytes) -> str:
    """Turn a database into an empty file, if it still is as expected. Return why not if that fails.

    It stays the same file: a program that has it open finds no tables in it, and continues to use it.
    """
    return _patiently(lambda: _empty(path, expected, scratch))


def fill(path: bytes, image: bytes) -> str:
    """Turn an empty file into a database equal to an image. Return why not if that fails."""
    return _patiently(lambda: _fill(path, image))


def _patiently(do: Callable[[], str]) -> str:
    deadline = time.monotonic() + WRITE_WAIT_S
    while True:
        try:
            return do()
        except _WrittenMeanwhile:
            return MOVED
        except (apsw.BusyError, apsw.LockedError, apsw.ProtocolError):
            if time.monotonic() > deadline:
                return "another process has had a transaction open in it for too long"
        except apsw.Error as error:
            return f"SQLite could not write it: {in_words(error)}"
        except OSError as error:
            return f"it could not be written: {in_words(error)}"
        time.sleep(_POLL_S)


def _put(path: bytes, image: bytes, expected: str, scratch: bytes, *, wal: bool) -> str:
    db = connect(path, write=True)
    source = connect(image, write=False, more="?immutable=1")
    said = ""
    try:
        db.pragma("synchronous", "full")
        before = _expect(db, path, expected, scratch)
        other_pages = source.pragma("page_size") != db.pragma("page_size")
        if db.pragma("journal_mode") == "wal" and (other_pages or not wal):
            said = _leave_wal(db)
            if said and other_pages:
                return f"its page size has changed, and {said}"
            before = _expect(db, path, expected, scratch)
        crash_points.reach(EXPECTED)
        with db.backup("main", source, "main") as backup:
            backup.step(0)  # no page, only the lock: one page may be all there is
            # From here on no one else can write. What was written since we looked shows in the files.
            if _fingerprint(path) != before:
                raise _WrittenMeanwhile
            crash_points.reach(WRITING)
            while not backup.done:
                backup.step(-1)
    finally:
        source.close(True)
        db.close(True)
    crash_points.reach(WRITTEN)
    return said


def _move(path: bytes, base: bytes, goal: bytes) -> str:
    db = connect(path, write=True)
    try:
        db.pragma("synchronous", "full")
        rows.beside(db, base=base, goal=goal)
        if objects(db, "base") != objects(db, "goal"):
            return f"{MOVED}, and its tables were changed too"
        db.execute("BEGIN IMMEDIATE")
        rows.move(db, "base", "goal")
        crash_points.reach(MOVING)
        db.execute("COMMIT")
        count = rows.left(db, "base", "goal")
        return f"{count} of the rows that were put back have been changed since" if count else ""
    except Clash as clash:
        return str(clash)
    finally:
        db.close(True)


def _remove(path: bytes, expected: str, scratch: bytes, visible: bytes) -> str:
    db = connect(path, write=True)
    try:
        if not _is_alone(db, path):
            return _set_aside(path, expected, scratch, visible)
        # Move the content of the log into the file first: then the file is complete without its log.
        if value(db, "PRAGMA wal_checkpoint(TRUNCATE)"):
            raise apsw.BusyError("another process reads from its log")
        before = _expect(db, path, expected, scratch)
        db.execute("BEGIN EXCLUSIVE")
        if _fingerprint(path) != before:
            raise _WrittenMeanwhile
        crash_points.reach(REMOVING)
        for name in (*(path + suffix for suffix in SUFFIXES), path):
            Path(os.fsdecode(name)).unlink(missing_ok=True)
        db.execute("ROLLBACK")
    finally:
        db.close(True)
    durable.sync_folder(os.path.dirname(path))
    return ""


def _is_alone(db: apsw.Connection, path: bytes) -> bool:
    """Return True if no one else has a WAL database open, nor can open it before this connection is closed.

    Without a log it does not matter: SQLite refuses to write to a file that has lost its name.
    """
    db.pragma("locking_mode", "exclusive")
    try:
        db.pragma("schema_version")
    except apsw.BusyError:
        if is_wal(_peek(path, HEADER_BYTES)):
            return False
        raise
    return True


def _set_aside(path: bytes, expected: str, scratch: bytes, visible: bytes) -> str:
    """Rename a database that others have open, together with the log that they keep writing to."""
    db = connect(path, write=True)
    try:
        before = _expect(db, path, expected, scratch)
        db.execute("BEGIN IMMEDIATE")
        if _fingerprint(path) != before:
            raise _WrittenMeanwhile
        name = _named_again(path, visible)
        crash_points.reach(REMOVING)
        for end in (b"", *SUFFIXES):
            Path(os.fsdecode(path + end)).unlink(missing_ok=True)
        db.execute("ROLLBACK")
    finally:
        db.close(True)
    durable.sync_folder(visible)
    durable.sync_folder(os.path.dirname(path))
    return f"another program has it open and continues to write to it as {text_of(name)}"


def _named_again(path: bytes, folder: bytes) -> bytes:
    """Give a database a second name, the log first: from then on it is complete under either name."""
    for number in range(1, 1000):
        name = b"takeback-rescued-%d-%s" % (number, os.path.basename(path)[:200])
        made = os.path.join(folder, name)
        if any(os.path.lexists(made + end) for end in (b"", *SUFFIXES)):
            continue
        for end in (*SUFFIXES, b""):
            if os.path.lexists(path + end):
                os.link(path + end, made + end, follow_symlinks=False)
        return name
    raise OSError(errno.EEXIST, "no name is left for a rescued file")


def _empty(path: bytes, expected: str, scratch: bytes) -> str:
    db = connect(path, write=True)
    try:
        db.pragma("synchronous", "full")
        before = _expect(db, path, expected, scratch)
        if db.pragma("journal_mode") == "wal":
            said = _leave_wal(db)
            before = _expect(db, path, expected, scratch)
            if said:
                _drop_everything(db, path, before)
                return f"it is now an empty database instead of an empty file, because {said}"
        crash_points.reach(EMPTYING)
        db.execute("BEGIN EXCLUSIVE")
        if _fingerprint(path) != before:
            raise _WrittenMeanwhile
        fd = descriptors(path)[0]
        os.ftruncate(fd, 0)
        durable.fsync(fd)
        crash_points.reach(EMPTIED)
        db.execute("ROLLBACK")
    finally:
        db.close(True)
    return ""


def _drop_everything(db: apsw.Connection, path: bytes, before: tuple[bytes, ...]) -> None:
    """Leave a database without tables, if SQLite does not let it become an empty file."""
    source = apsw.Connection(":memory:")
    try:
        source.pragma("page_size", db.pragma("page_size"))
        # A database that was never written has no page, and its backup no first step.
        source.execute("CREATE TABLE passing (a); DROP TABLE passing; VACUUM")
        with db.backup("main", source, "main") as backup:
            backup.step(0)
            if _fingerprint(path) != before:
                raise _WrittenMeanwhile
            while not backup.done:
                backup.step(-1)
    finally:
        source.close(True)


def _fill(path: bytes, image: bytes) -> str:
    db = connect(path, write=True)
    source = connect(image, write=False, more="?immutable=1")
    try:
        db.pragma("synchronous", "full")
        with db.backup("main", source, "main") as backup:
            backup.step(0)
            if _peek(path, 1):
                raise _WrittenMeanwhile
            crash_points.reach(WRITING)
            while not backup.done:
                backup.step(-1)
    finally:
        source.close(True)
        db.close(True)
    return ""


def make(path: bytes, image: bytes, kept: ImageData, mtime_ns: int) -> str:
    """Create a database where nothing exists. Return why not if that fails."""
    try:
        with folder_of(path) as folder:
            name = os.path.basename(path)
            if said := _in_the_way(name, folder):
                return said
            fd = own_files.made(folder, image, kept.mode, kept.uid, kept.gid, mtime_ns, kept.attributes)
            try:
                crash_points.reach(MAKING)
                own_files.named(fd, name, folder)
            finally:
                os.close(fd)
            durable.fsync(folder)
    except FileExistsError:
        return TAKEN
    except OSError as error:
        return f"it could not be written: {error.strerror or error}"
    return ""


def link(path: bytes, to: bytes) -> str:
    """Give a database another name, where nothing exists. Return why not if that fails."""
    try:
        with folder_of(path) as folder, folder_of(to) as other:
            names = os.path.basename(path), os.path.basename(to)
            if said := _in_the_way(names[1], other):
                return said
            os.link(*names, src_dir_fd=folder, dst_dir_fd=other, follow_symlinks=False)
            durable.fsync(other)
    except FileExistsError:
        return TAKEN
    except OSError as error:
        return f"it could not be written: {error.strerror or error}"
    return ""


def _in_the_way(name: bytes, folder: int) -> str:
    """Return a text about a file beside the path of a database that SQLite would read into it."""
    for suffix in SUFFIXES:
        try:
            if os.stat(name + suffix, dir_fd=folder, follow_symlinks=False).st_size:
                return f"{text_of(name + suffix)} exists there, and SQLite would read it into the database"
        except FileNotFoundError:
            continue
    return ""


def _leave_wal(db: apsw.Connection) -> str:
    """Leave WAL mode. Return why not if others have the database open, in which case SQLite refuses."""
    try:
        db.pragma("journal_mode", "delete")
    except apsw.BusyError:
        return "it stays in WAL mode while others have it open"
    return ""


def _expect(db: apsw.Connection, path: bytes, expected: str, scratch: bytes) -> tuple[bytes, ...]:
    """Raise _WrittenMeanwhile if it is not as expected. Return a fingerprint that changes with the next write."""
    db.execute("BEGIN")
    try:
        db.pragma("schema_version")
        os.truncate(scratch, 0)
        pages(db, scratch)
        before = _fingerprint(path)
    finally:
        db.execute("ROLLBACK")
    if finish(scratch, bytes(HEADER_BYTES)).digest != expected:
        raise _WrittenMeanwhile
    return before


def _fingerprint(path: bytes) -> tuple[bytes, ...]:
    """Return what every commit changes: a counter in the database's header, and one in the index of its log.

    Read through SQLite's own descriptors: closing one of ours would drop the locks on the file.
    """
    return (_peek(path, HEADER_BYTES), _peek(path + SUFFIXES[1], _SHM_HEADER_BYTES))


def _peek(path: bytes, count: int) -> bytes:
    for fd in descriptors(path):
        return os.pread(fd, count, 0)
    return b""
