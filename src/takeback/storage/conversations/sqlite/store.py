"""Conversations in the file conversations.db of a workspace's state folder."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import apsw

from takeback.errors import BackendError, CorruptionError, FormatTooNew, TakebackError, UsageError
from takeback.storage.conversations.shared_commit import Writing
from takeback.storage.conversations.tables import Query, Row, TableConversations
from takeback.system import at_fork
from takeback.system.private_files import owner_of, private_file

T = TypeVar("T")

APPLICATION_ID = 0x54414B43  # "TAKC"
FORMAT = 1
BUSY_MS = 10_000
CHECKPOINT_PAGES = 500
"""The log is written back this often; it is then overwritten from its beginning, and grows no more."""

_TABLES = """
CREATE TABLE threads (id INTEGER PRIMARY KEY AUTOINCREMENT, workspace TEXT NOT NULL, name TEXT NOT NULL,
    epoch INTEGER NOT NULL, UNIQUE (workspace, name)) STRICT;
CREATE TABLE items (thread INTEGER NOT NULL, name BLOB NOT NULL, type TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (thread, name)) STRICT;
CREATE TABLE snapshots (thread INTEGER NOT NULL, space TEXT NOT NULL, id TEXT NOT NULL, parent TEXT NOT NULL,
    run TEXT NOT NULL, lacks BLOB NOT NULL, about_type TEXT NOT NULL, about BLOB NOT NULL, body_type TEXT NOT NULL,
    body BLOB NOT NULL, refs BLOB NOT NULL, PRIMARY KEY (thread, space, id)) STRICT, WITHOUT ROWID;
CREATE TABLE writes (thread INTEGER NOT NULL, space TEXT NOT NULL, snapshot TEXT NOT NULL, task TEXT NOT NULL,
    idx INTEGER NOT NULL, path TEXT NOT NULL, channel TEXT NOT NULL, type TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (thread, space, snapshot, task, idx)) STRICT, WITHOUT ROWID;
"""


class SqliteConversations(TableConversations, at_fork.ConnectionHolder):
    """Conversations in a SQLite file, through one connection, for one thread at a time."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self._use = threading.RLock()
        self._is_closed = False
        self._db: apsw.Connection | None = None
        with self._use:
            self._connection()
        at_fork.watch(self)

    def _connection(self) -> apsw.Connection:
        if self._is_closed:
            raise UsageError("the store of conversations is closed; nothing was stored")
        if self._db is None:
            self._db = _connect(self.path)
        return self._db

    def _commit(self, group: Sequence[Writing]) -> None:
        if len(group) == 1 and len(group[0].statements) == 2:
            self._commit_one(group[0])
            return

        def work(query: Query) -> list[bool]:
            found, db = [], self._connection()
            for writing in group:
                holding, *rest = writing.statements
                before = db.total_changes()
                for statement in rest:
                    query(*statement)
                # Each statement changes something only if the token holds, so one that did answers the question.
                found.append(db.total_changes() > before or bool(query(*holding)))
            return found

        for writing, holds in zip(group, self._alone(work), strict=True):
            writing.end(holds=holds)

    def _commit_one(self, writing: Writing) -> None:
        """Write one statement, which is a transaction by itself."""
        holding, (text, values) = writing.statements
        with self._use:
            db = self._connection()
            try:
                before = db.total_changes()
                db.execute(text, values)
                holds = db.total_changes() > before or bool(db.execute(*holding).fetchall())
            except apsw.Error as error:
                raise _explained(error, self.path) from error
        # A token that ceased to hold in between is found by the next write, and nothing was stored with it.
        writing.end(holds=holds)

    def _ask(self, work: Callable[[Query], T]) -> T:
        return self._within("BEGIN", work)

    def _alone(self, work: Callable[[Query], T]) -> T:
        return self._within("BEGIN IMMEDIATE", work)

    def _within(self, begin: str, work: Callable[[Query], T]) -> T:
        with self._use:
            db = self._connection()

            def query(text: str, given: Sequence[object]) -> list[Row]:
                return db.execute(text, tuple(given)).fetchall()

            try:
                db.execute(begin)
                try:
                    found = work(query)
                    db.execute("COMMIT")
                except BaseException:
                    if not db.get_autocommit():
                        db.execute("ROLLBACK")
                    raise
            except apsw.Error as error:
                raise _explained(error, self.path) from error
            return found

    def close(self) -> None:
        with self._use:
            self._is_closed = True
            at_fork.unwatch(self)
            self._disconnect()

    def _disconnect(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close(True)

    def hold_still(self) -> None:
        """Close the connection before a fork, so that the child does not inherit it."""
        self._use.acquire()
        self._disconnect()

    def go_on(self) -> None:
        self._use.release()


def _connect(path: Path) -> apsw.Connection:
    private_file(path)
    try:
        db = apsw.Connection(
            f"file:{quote(os.fsencode(path))}", flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
        )
        try:
            _prepare(db, path)
        except BaseException:
            db.close(True)
            raise
    except apsw.Error as error:
        raise _explained(error, path) from error
    return db


def _prepare(db: apsw.Connection, path: Path) -> None:
    db.set_busy_timeout(BUSY_MS)
    _refuse(db, path)  # before anything is written, so that a newer program finds its file as it was
    db.pragma("journal_mode", "wal")
    # Every commit is synced: with NORMAL, a power cut would take back checkpoints that were reported as stored.
    db.pragma("synchronous", "full")
    db.pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
    db.pragma("secure_delete", "fast")
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    if db.pragma("user_version") == FORMAT:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        _refuse(db, path)
        if db.pragma("user_version") != FORMAT:  # another process may have been first
            db.execute(_TABLES)
            db.pragma("application_id", APPLICATION_ID)
            db.pragma("user_version", FORMAT)
        db.execute("COMMIT")
    except BaseException:
        if not db.get_autocommit():
            db.execute("ROLLBACK")
        raise


def _refuse(db: apsw.Connection, path: Path) -> None:
    application, version = db.pragma("application_id"), db.pragma("user_version")
    if application not in (0, APPLICATION_ID):
        raise CorruptionError(
            f"{path} is another program's database. Nothing was changed",
            hint="move it away, or restore the store of conversations from a backup",
        )
    if version > FORMAT:
        raise FormatTooNew(
            f"{path} is in format {version}; this program reads up to {FORMAT}. Nothing was changed",
            hint="upgrade Takeback",
        )


def _explained(error: apsw.Error, path: Path) -> TakebackError:
    match error:
        case apsw.FullError():
            return BackendError(
                f"the disk is full: {path} cannot grow. Nothing was stored",
                hint="free some space, and try again",
            )
        case apsw.BusyError() | apsw.LockedError():
            return BackendError(
                f"{path} is busy: another process has been writing it for too long. Nothing was stored",
                hint="try again; if it happens again, check what that process does",
                retryable=True,
            )
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError():
            return BackendError(
                f"{path} cannot be opened for writing: {error}. Nothing was stored",
                hint=f"its folder belongs to {owner_of(path.parent) or 'an unknown user'}; check its permissions",
            )
        case apsw.CorruptError() | apsw.NotADBError() | apsw.SQLError():
            return CorruptionError(
                f"{path} is damaged: {error}. Nothing was stored",
                hint="restore the file from a backup, or move it away to begin with no conversations",
            )
    return BackendError(f"{path} could not be used: {error}. Nothing was stored", hint="check the disk")
