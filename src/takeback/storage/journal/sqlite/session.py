"""The one connection that a process has to a journal's database, for one thread at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import apsw

from takeback.errors import CorruptionError, UsageError
from takeback.storage.journal.sqlite.errors import explain
from takeback.storage.journal.sqlite.file import Wal, connect
from takeback.system import at_fork
from takeback.system.private_files import unusable


class SqliteSession(at_fork.ConnectionHolder):
    """A connection made on demand, with its errors translated: `with session.lock, session as db`.

    The `with` block takes the lock itself: an interrupt on the way into a method of ours could leave it locked.
    """

    def __init__(self, path: Path, busy_s: float, forked: Callable[[], None]) -> None:
        """`forked` is called in a forked child, before the connection is used there."""
        self.path = path
        self.wal = Wal(path)
        self._name = str(path)
        self._busy_s = busy_s
        self._forked = forked
        # Reentrant, so that a signal handler that appends while its thread appends gets an error and does not
        # deadlock.
        self.lock = threading.RLock()
        self._users: list[int] = []
        self._pid = os.getpid()
        self._is_closed = False
        self._db: apsw.Connection | None = None
        self._file = (0, 0)

    def open(self) -> None:
        with self.lock, self:
            at_fork.watch(self)

    def __enter__(self) -> apsw.Connection:
        self._users.append(threading.get_ident())
        try:
            return self.connection()
        except BaseException:
            self._users.remove(threading.get_ident())
            raise

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._users.remove(threading.get_ident())
        if isinstance(error, apsw.Error):
            raise explain(error, self.path) from error

    @property
    def is_used_here(self) -> bool:
        """Whether this thread is using the connection."""
        return threading.get_ident() in self._users

    def connection(self) -> apsw.Connection:
        """Return the connection, making it if there is none; for the thread that uses it."""
        if self._is_closed:
            raise UsageError("the journal is closed; nothing was recorded")
        if self._db is None:
            self._db = connect(self.path, busy_s=self._busy_s)
            self._file = _identity(self._name)
            try:
                self.wal.open()
            except OSError as error:
                self._disconnect()
                raise unusable(self.wal.path, error) from error
        return self._db

    def make_durable(self) -> None:
        """Make everything committed so far survive a power cut."""
        try:
            self.wal.sync()
        except OSError as error:
            # After a failed sync the kernel's answers about these bytes prove nothing. Closing checkpoints them
            # elsewhere.
            self._disconnect()
            raise unusable(self.wal.path, error) from error

    def refuse_replaced(self) -> None:
        """Raise CorruptionError if another file has our name now: what is appended to a deleted one is lost."""
        if _identity(self._name) != self._file:
            raise CorruptionError(
                f"{self.path} was removed or replaced while it was open. Nothing was recorded",
                hint="open it again; `takeback verify` then reports what is missing",
            )

    def close(self) -> bool:
        """Close for good. Return False if it was already closed."""
        with self.lock:
            was_closed, self._is_closed = self._is_closed, True
            at_fork.unwatch(self)
            self._disconnect()
            return not was_closed

    def _disconnect(self) -> None:
        self.wal.close()
        db, self._db = self._db, None
        if db is not None:
            db.close(True)

    def hold_still(self) -> None:
        """Close the connection before a fork, so that the child does not inherit it."""
        self.lock.acquire()
        self._disconnect()

    def go_on(self) -> None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._users.clear()  # they were threads of the parent
            self._forked()
        self.lock.release()


def _identity(path: str) -> tuple[int, int]:
    """Return device and inode of the file that has this name now."""
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0)
    return found.st_dev, found.st_ino
