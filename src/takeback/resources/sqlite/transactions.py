"""A transaction in a SQLite database, for the user's own code."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import apsw

from takeback.core.codec import text_of
from takeback.errors import BackendError, TakebackError, UsageError
from takeback.ports.databases import PreparedDatabase
from takeback.resources.sqlite.discovery import KnownDatabases
from takeback.resources.sqlite.own_files import descriptors
from takeback.resources.sqlite.reading import uri
from takeback.system import crash_points

BUSY_WAIT_MS = 10_000

COMMITTING = crash_points.crash_point("sqlite-committing")
COMMITTED = crash_points.crash_point("sqlite-committed")


_held: set[bytes] = set()
"""The databases in which this process has one of our transactions open."""


class SqliteTransaction:
    """A transaction that holds the write lock from the start: nothing it has read changes before it writes."""

    def __init__(self, place: bytes) -> None:
        self._place = place
        _refuse_two_libraries(place)
        self._is_new = not os.path.lexists(place)
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
        try:
            self.connection = apsw.Connection(uri(place), flags=flags)
        except apsw.Error as error:
            raise _explained(place, error) from error
        _held.add(place)
        try:
            self.connection.set_busy_timeout(BUSY_WAIT_MS)
            self.connection.execute("BEGIN IMMEDIATE")
        except apsw.Error as error:
            self.abort()
            raise _explained(place, error) from error

    def commit(self) -> None:
        if self.connection.get_autocommit():
            self.abort()
            raise UsageError(
                f"the transaction in {text_of(self._place)} was ended inside the block, so it cannot be committed",
                hint="leave BEGIN, COMMIT and ROLLBACK to the block; savepoints are fine",
            )
        crash_points.reach(COMMITTING)
        try:
            # An empty commit would create a database without content.
            is_nothing = self._is_new and not self.connection.execute("SELECT 1 FROM sqlite_schema").get
            self.connection.execute("ROLLBACK" if is_nothing else "COMMIT")
        except apsw.Error as error:
            self.abort()
            raise _explained(self._place, error) from error
        crash_points.reach(COMMITTED)
        self.abort()

    def abort(self) -> None:
        """Roll back and close. After the end of the transaction, do nothing."""
        if self._place not in _held:
            return
        if not self.connection.get_autocommit():
            self.connection.execute("ROLLBACK")
        self.connection.close(True)
        _held.discard(self._place)
        if self._is_new and _is_empty(self._place):
            # Opened and never written: leave no trace.
            Path(os.fsdecode(self._place)).unlink(missing_ok=True)


class SqliteDatabases:
    """The `Databases` port for files. A relative path starts at the workspace's root."""

    def __init__(self, root: Path, found: KnownDatabases, excluded: Callable[[bytes], bool]) -> None:
        self._root = os.path.realpath(os.fsencode(root))
        self._found = found
        self._excluded = excluded

    def prepare(self, place: str) -> PreparedDatabase:
        path = self._resolved(place)
        found = os.stat(path) if os.path.lexists(path) else None
        if found and found.st_size and not self._found.is_database(path):
            raise UsageError(f"{place} is not a SQLite database; nothing was begun")
        inside = self._inside(path)
        if inside is None or self._is_excluded(inside):
            # The scan does not find it there, so it is captured by its name.
            inside = None
            self._found.guard(path)
        else:
            self._found.wanted.add(inside)
        return PreparedDatabase(text_of(inside or path))

    def begin(self, place: str, action: str) -> SqliteTransaction:  # noqa: ARG002  the scan finds it, not its name
        return SqliteTransaction(self._resolved(place))

    def _resolved(self, place: str) -> bytes:
        path = os.path.realpath(os.path.join(self._root, os.fsencode(place)))
        if os.path.lexists(path) and not stat.S_ISREG(os.stat(path).st_mode):
            raise UsageError(f"{place} is not a file, so it is not a SQLite database; nothing was begun")
        if not os.path.isdir(os.path.dirname(path)):
            raise UsageError(f"there is no folder for {place}; nothing was begun")
        return path

    def _inside(self, path: bytes) -> bytes | None:
        above = self._root.rstrip(b"/") + b"/"
        return path[len(above) :] if path.startswith(above) else None

    def _is_excluded(self, inside: bytes) -> bool:
        """Return True if the path or a folder above it is excluded."""
        while inside:
            if self._excluded(inside):
                return True
            inside = os.path.dirname(inside)
        return False


def _refuse_two_libraries(place: bytes) -> None:
    """Raise UsageError if another SQLite in this process has it open: the two would drop each other's locks."""
    if place not in _held and descriptors(place):
        raise UsageError(
            f"this process already has {text_of(place)} open through another connection, and the two would not see "
            "each other's locks; nothing was begun",
            hint="close that connection first; `with sqlite3.connect(…)` does not close it",
        )


def _is_empty(place: bytes) -> bool:
    try:
        return os.stat(place).st_size == 0
    except OSError:
        return False


def _explained(place: bytes, error: apsw.Error) -> TakebackError:
    name = text_of(place)
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        return BackendError(
            f"{name} is busy: another connection has been writing to it for too long. Nothing was written",
            hint="try again when it is done",
            retryable=True,
        )
    if isinstance(error, apsw.ConstraintError):
        return UsageError(f"a change to {name} violates a constraint: {error}. Nothing was written")
    return BackendError(f"{name} could not be used: {error}. Nothing was written")
