"""What this machine knows of the bucket: which blobs are in which object, and what of its own packs is there.

    <state>/bucket-NAME.db

All of it is derived, and is made again by listing the bucket. What makes it more than a cache is the ticket: the
lease under which the list was made. While it is held no clean-up has removed anything that is listed here (sweep.py).
Ticket and list are therefore replaced together, in one transaction.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from takeback.core.leases import RESERVED
from takeback.errors import BackendError
from takeback.storage.content.bucket.objects import ObjectRow
from takeback.system import at_fork
from takeback.system.private_files import private_file

TICKETS = f"{RESERVED}blobs/"
"""Leases under which content of the bucket may be named. A clean-up ends all of them before it removes anything."""

VERSION = 1
_BUSY_MS = 10_000
_SCHEMA = """
CREATE TABLE objects (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, bytes INTEGER NOT NULL,
                      condemned INTEGER NOT NULL DEFAULT 0, damage TEXT NOT NULL DEFAULT '');
CREATE TABLE blobs (digest BLOB NOT NULL, object INTEGER NOT NULL, offset INTEGER NOT NULL, stored INTEGER NOT NULL,
                    raw INTEGER NOT NULL, codec INTEGER NOT NULL, PRIMARY KEY (digest, object)) WITHOUT ROWID;
CREATE INDEX blobs_of ON blobs (object);
CREATE TABLE sent (pack INTEGER PRIMARY KEY, end INTEGER NOT NULL);
CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
"""


class Ticket(NamedTuple):
    """A lease of the journal, and what the names of objects begin with that are made under it."""

    fence: int
    salt: bytes


class BlobLocation(NamedTuple):
    """An object in the bucket, and where in it a blob is."""

    object: str
    bytes: int
    row: ObjectRow


class Listed(NamedTuple):
    """An object of the bucket that was not known before."""

    name: str
    bytes: int
    rows: Collection[ObjectRow]
    damage: str = ""


class LocalIndex(at_fork.ConnectionHolder):
    """A small database, for any number of threads and processes of this machine."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._open: apsw.Connection | None = None
        with self._explained():
            try:
                self._open = self._opened()
            except (apsw.NotADBError, apsw.CorruptError):
                for file in path.parent.glob(f"{path.name}*"):
                    file.unlink()  # all of it can be learned again
                self._open = self._opened()
        at_fork.watch(self)

    @property
    def _db(self) -> apsw.Connection:
        if self._open is None:
            self._open = self._opened()
        return self._open

    def hold_still(self) -> None:
        """For `forks`: a connection does not go over into a child."""
        self._lock.acquire()
        self._let_go()

    def go_on(self) -> None:
        self._lock.release()

    def _let_go(self) -> None:
        db, self._open = self._open, None
        if db is not None:
            db.close()

    def _opened(self) -> apsw.Connection:
        private_file(self._path)
        db = apsw.Connection(str(self._path))
        db.set_busy_timeout(_BUSY_MS)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        with db:
            if db.pragma("user_version") != VERSION:
                for (name,) in list(db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")):
                    db.execute(f'DROP TABLE "{name}"')
                db.execute(_SCHEMA)
                db.pragma("user_version", VERSION)
        return db

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise BackendError(
                f"{self._path} cannot be used: {error}. Nothing was recorded",
                hint="see whether the disk is full; the file can be removed, and is then made again from the bucket",
                retryable=True,
            ) from error

    @contextmanager
    def _writing(self) -> Iterator[apsw.Connection]:
        with self._lock, self._explained():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with self._lock, self._explained():
            return list(self._db.execute(query, values))

    # Facts

    def fact(self, name: str) -> Any:
        found = self._rows("SELECT value FROM facts WHERE name = ?", name)
        return found[0][0] if found else None

    def note(self, name: str, value: Any) -> None:
        with self._writing() as db:
            _note(db, name, value)

    def ticket(self) -> Ticket | None:
        """What names may rely on what is known; None before the first."""
        found = dict(self._rows("SELECT name, value FROM facts WHERE name IN ('fence', 'salt')"))
        return Ticket(found["fence"], found["salt"]) if len(found) == 2 else None

    # Blobs

    def places(self, digest: bytes) -> list[BlobLocation]:
        """Where a blob is; last where it will be removed."""
        found = self._rows(
            "SELECT name, bytes, digest, offset, stored, raw, codec FROM blobs JOIN objects ON id = object "
            "WHERE digest = ? ORDER BY condemned",
            digest,
        )
        return [BlobLocation(name, size, ObjectRow(*row)) for name, size, *row in found]

    def has(self, digest: bytes) -> bool:
        """Whether it is there to stay."""
        query = "SELECT 1 FROM blobs JOIN objects ON id = object WHERE digest = ? AND NOT condemned LIMIT 1"
        return bool(self._rows(query, digest))

    def lacks(self, digests: Iterable[bytes]) -> set[bytes]:
        return {digest for digest in digests if not self.has(digest)}

    def rows_of(self, name: str) -> list[ObjectRow]:
        """What is in an object."""
        query = (
            "SELECT digest, offset, stored, raw, codec FROM blobs JOIN objects ON id = object WHERE name = ? "
            "ORDER BY offset"
        )
        return [ObjectRow(*row) for row in self._rows(query, name)]

    def contents(self) -> Iterator[tuple[str, bytes, int]]:
        """Every blob that is there to stay: its object, its digest and how long it is; the oldest objects first."""
        query = (
            "SELECT name, digest, stored FROM blobs JOIN objects ON id = object "
            "WHERE NOT condemned ORDER BY object"
        )
        return iter(self._rows(query))

    # Objects

    def objects(self) -> dict[str, int]:
        """Those that are there to stay, with their sizes."""
        return dict(self._rows("SELECT name, bytes FROM objects WHERE NOT condemned"))

    def condemned(self) -> list[str]:
        return [name for (name,) in self._rows("SELECT name FROM objects WHERE condemned")]

    def damaged(self) -> list[tuple[str, str]]:
        return self._rows("SELECT name, damage FROM objects WHERE damage != ''")

    def names(self) -> set[str]:
        return {name for (name,) in self._rows("SELECT name FROM objects")}

    def add(self, made: Listed, under: Ticket) -> None:
        """Take in an object that was made under this ticket. If another one holds by now, nothing happens."""
        with self._writing() as db:
            if self.ticket() == under:
                _insert(db, made)

    def take_in(
        self,
        listing: Mapping[str, int],
        new: Iterable[Listed],
        condemned: Collection[str],
        *,
        before: Ticket | None,
        now: Ticket | None,
    ) -> bool:
        """Replace what is known by a listing that was made after `before` was read; says whether anything is gone.

        With `now` the listing was made under that ticket, which holds from here on. Else a listing that is older
        than the present ticket is worth nothing, and is left.
        """
        with self._writing() as db:
            if now is None and self.ticket() != before:
                return False
            gone = self.names() - listing.keys()
            doomed = set(condemned) & self.objects().keys()
            for listed in new:
                _insert(db, listed)
            for name in gone:
                db.execute(
                    "DELETE FROM blobs WHERE object = (SELECT id FROM objects WHERE name = ?)", (name,)
                )
                db.execute("DELETE FROM objects WHERE name = ?", (name,))
            db.executemany("UPDATE objects SET condemned = 1 WHERE name = ?", [(name,) for name in condemned])
            if gone or doomed:
                # What was sent may be among it: everything of this machine is looked at again.
                db.execute("DELETE FROM sent")
            if now is not None:
                _note(db, "fence", now.fence)
                _note(db, "salt", now.salt)
            return bool(gone or doomed)

    # Packs of this machine

    def sent(self) -> dict[int, int]:
        """Up to where each pack is known to be in the bucket."""
        return dict(self._rows("SELECT pack, end FROM sent"))

    def note_sent(self, ends: Mapping[int, int], packs: Collection[int], under: Ticket) -> None:
        """These packs are in the bucket up to there; others than `packs` are not here any more."""
        with self._writing() as db:
            if self.ticket() != under:
                return
            db.executemany("INSERT OR REPLACE INTO sent VALUES (?, ?)", ends.items())
            for number in self.sent().keys() - packs:
                db.execute("DELETE FROM sent WHERE pack = ?", (number,))

    def close(self) -> None:
        at_fork.unwatch(self)
        with self._lock:
            self._let_go()


def _note(db: apsw.Connection, name: str, value: Any) -> None:
    db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))


def _insert(db: apsw.Connection, made: Listed) -> None:
    db.execute(
        "INSERT OR IGNORE INTO objects (name, bytes, damage) VALUES (?, ?, ?)",
        (made.name, made.bytes, made.damage),
    )
    ((number,),) = db.execute("SELECT id FROM objects WHERE name = ?", (made.name,))
    db.executemany(
        "INSERT OR IGNORE INTO blobs VALUES (?, ?, ?, ?, ?, ?)",
        [(row.digest, number, row.offset, row.stored_bytes, row.raw_bytes, row.codec) for row in made.rows],
    )
