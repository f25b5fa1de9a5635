"""Opening a journal's database: its owner, format and settings, and how long to wait while it is busy."""

from __future__ import annotations

import fcntl
import os
import random
import time
from pathlib import Path
from urllib.parse import quote

import apsw

from takeback.errors import CorruptionError, FormatTooNew
from takeback.storage.journal.sqlite.errors import explain
from takeback.system import durable
from takeback.system.crash_points import crash_point, reach
from takeback.system.private_files import private_file

APPLICATION_ID = 0x54414B45  # "TAKE"
FORMAT = 6
"""The newest format; as many as there are files in migrations/."""

MIGRATING = crash_point("journal-migrating")


def connect(path: Path, *, busy_s: float) -> apsw.Connection:
    """Open the database, creating or migrating it if needed."""
    private_file(path)
    try:
        _refuse(path, *peek(path))
        db = apsw.Connection(_uri(path), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI)
        try:
            _prepare(db, path, busy_s)
        except BaseException:
            db.close(True)
            raise
    except apsw.Error as error:
        raise explain(error, path) from error
    return db


class BusyHandler:
    """A busy handler that retries soon, after a random delay, until the time is up.

    SQLite's own back-off sleeps a fixed time of up to a tenth of a second, so under load the connection that has
    waited longest is asleep when the lock becomes free. Here the delay is about 5 ms at most. Much less would not
    help: the waiting processes would take the processor from the one that writes.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._until = 0.0

    def __call__(self, tries: int) -> bool:
        now = time.monotonic()
        if tries == 0:
            self._until = now + self._limit_s
        if now >= self._until:
            return False
        time.sleep(random.uniform(50e-6, 300e-6) * 2 ** min(tries, 4))
        return True


class Wal:
    """The write-ahead log of an open database: where writers queue, and what makes a commit durable.

    With synchronous = FULL, SQLite syncs while it holds the write lock, so writers wait for the disk one after the
    other. Syncing after the lock is released lets several processes sync together. See ADR 7.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.with_name(f"{path.name}-wal")
        self._fd = -1

    def open(self) -> None:
        """Open the log.

        Only while a connection is open: the connection keeps SQLite from deleting and recreating the file.
        """
        self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> None:
        # The kernel wakes the next in line at once, while retrying a busy database costs a sleep each time. SQLite
        # does not use this lock and relies on its own: this one is only for speed.
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def __exit__(self, *error: object) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def sync(self) -> None:
        """Make everything committed so far survive a power cut."""
        durable.datasync(self._fd)


def peek(path: Path) -> tuple[int, int]:
    """Return the application id and the format, without creating a file beside it; zeros if the file is unreadable.

    Read through SQLite, not by hand: closing our own descriptor would drop the locks that another connection of
    this process has on the file.
    """
    db = apsw.Connection(
        f"{_uri(path)}?mode=ro&immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    )
    try:
        return _identity(db)
    except (apsw.CorruptError, apsw.NotADBError):
        # Nothing to judge by. A file that is being created, or whose creation was interrupted, is completed when
        # opened.
        return 0, 0
    finally:
        db.close(True)


def _uri(path: Path) -> str:
    # Percent-encoded, because a path may contain bytes that are not valid text.
    return f"file:{quote(os.fsencode(path))}"


def _identity(db: apsw.Connection) -> tuple[int, int]:
    return int(db.pragma("application_id")), int(db.pragma("user_version"))


def _refuse(path: Path, application: int, version: int) -> None:
    if application not in (0, APPLICATION_ID):
        raise CorruptionError(
            f"{path} is another program's database, not a Takeback journal. Nothing was changed",
            hint="move it away, or restore the journal from a backup",
        )
    if application and version > FORMAT:
        raise FormatTooNew(
            f"{path} is in journal format {version}; this program reads up to {FORMAT}. Nothing was changed",
            hint="upgrade Takeback",
        )


def _prepare(db: apsw.Connection, path: Path, busy_s: float) -> None:
    patience = BusyHandler(busy_s)
    db.set_busy_handler(patience)
    # One plan for each statement: otherwise SQLite plans anew for every bound value.
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    application, version = _identity(db)
    _refuse(path, application, version)  # again: the WAL may be newer than what `peek` saw
    if (application, version) != (APPLICATION_ID, FORMAT):
        _migrate(db, path)
    _use_wal(db, patience)
    # `Wal` syncs commits without holding the lock; SQLite still syncs where the order of WAL and file matters.
    db.execute("PRAGMA synchronous = NORMAL")


def _migrate(db: apsw.Connection, path: Path) -> None:
    """Migrate the database to the newest format in one transaction: a crash leaves the old format intact."""
    db.execute("PRAGMA synchronous = FULL")
    db.execute("BEGIN IMMEDIATE")
    try:
        application, version = _identity(db)  # again: another process may have been first
        _refuse(path, application, version)
        if not application and db.execute("SELECT count(*) FROM sqlite_schema").get:
            _refuse(path, -1, version)
        for number, script in scripts(after=version):
            db.execute(script)
            db.execute(f"PRAGMA user_version = {number}")
            reach(MIGRATING)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("COMMIT")
    except BaseException:
        if not db.get_autocommit():
            db.execute("ROLLBACK")
        raise


def scripts(*, after: int) -> list[tuple[int, str]]:
    """Return the migrations after this format, with their numbers."""
    from importlib import resources  # slow to import, and seldom needed

    folder = resources.files("takeback.storage.journal.sqlite").joinpath("migrations")
    files = sorted((file.name, file) for file in folder.iterdir() if file.name.endswith(".sql"))
    scripts = [(int(name[:4]), file.read_text(encoding="utf-8")) for name, file in files]
    return [(number, script) for number, script in scripts if number > after]


def _use_wal(db: apsw.Connection, patience: BusyHandler) -> None:
    tries = 0
    while db.pragma("journal_mode") != "wal":
        try:
            db.pragma("journal_mode", "wal")
        except apsw.BusyError:
            # Another process does the same right now, and here SQLite does not wait by itself.
            if not patience(tries):
                raise
            tries += 1
    db.pragma("user_version")  # the first access creates the log file
