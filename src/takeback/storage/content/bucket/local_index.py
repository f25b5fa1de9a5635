"""What this machine knows about the bucket: which object has which blobs, and how much of its own packs is there.

    <state>/bucket-NAME.db

All of it is derived, and can be rebuilt by listing the bucket. The ticket makes it more than a cache: the lease
under which the listing was made. While the ticket is held, no clean-up has removed anything listed here (sweep.py).
So ticket and listing are replaced together, in one transaction.
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
"""Leases under which records may name content of the bucket. A clean-up ends them all before it removes anything."""

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
    """A lease of the journal, and the prefix of the names of objects created under it."""

    fence: int
    salt: bytes


class BlobLocation(NamedTuple):
    """An object in the bucket, and the position of a blob in it."""

    object: str
    bytes: int
    row: ObjectRow


class Listed(NamedTuple):
    """An object of the bucket that was unknown before."""

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
                    file.unlink()  # all of it can be rebuilt
                self._open = self._opened()
        at_fork.watch(self)

    @property
    def _db(self) -> apsw.Connection:
        if self._open is None:
            self._open = self._opened()
        return self._open

    def hold_still(self) -> None:
        """Close the connection before a fork, so that the child does not inherit it."""
        self._lock.acquire()
        self._disconnect()

    def go_on(self) -> None:
        self._lock.release()

    def _disconnect(self) -> None:
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
                hint="check the disk's free space; if the file is removed, it is rebuilt from the bucket",
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
        """Return the ticket under which records may rely on this index; None before the first."""
        found = dict(self._rows("SELECT name, value FROM facts WHERE name IN ('fence', 'salt')"))
        return Ticket(found["fence"], found["salt"]) if len(found) == 2 else None

    # Blobs

    def places(self, digest: bytes) -> list[BlobLocation]:
        """Return where a blob is, condemned objects last."""
        found = self._rows(
            "SELECT name, bytes, digest, offset, stored, raw, codec FROM blobs JOIN objects ON id = object "
            "WHERE digest = ? ORDER BY condemned",
            digest,
        )
        return [BlobLocation(name, size, ObjectRow(*row)) for name, size, *row in found]

    def has(self, digest: bytes) -> bool:
        """Return True if an object that is not condemned has it."""
        query = "SELECT 1 FROM blobs JOIN objects ON id = object WHERE digest = ? AND NOT condemned LIMIT 1"
        return bool(self._rows(query, digest))

    def lacks(self, digests: Iterable[bytes]) -> set[bytes]:
        return {digest for digest in digests if not self.has(digest)}

    def rows_of(self, name: str) -> list[ObjectRow]:
        """Return the blobs of an object."""
        query = (
            "SELECT digest, offset, stored, raw, codec FROM blobs JOIN objects ON id = object WHERE name = ? "
            "ORDER BY offset"
        )
        return [ObjectRow(*row) for row in self._rows(query, name)]

    def contents(self) -> Iterator[tuple[str, bytes, int]]:
        """Yield every blob that is not condemned: object, digest and stored length; oldest objects first."""
        query = (
            "SELECT name, digest, stored FROM blobs JOIN objects ON id = object "
            "WHERE NOT condemned ORDER BY object"
        )
        return iter(self._rows(query))

    # Objects

    def objects(self) -> dict[str, int]:
        """Return the objects that are not condemned, with their sizes."""
        return dict(self._rows("SELECT name, bytes FROM objects WHERE NOT condemned"))

    def condemned(self) -> list[str]:
        return [name for (name,) in self._rows("SELECT name FROM objects WHERE condemned")]

    def damaged(self) -> list[tuple[str, str]]:
        return self._rows("SELECT name, damage FROM objects WHERE damage != ''")

    def names(self) -> set[str]:
        return {name for (name,) in self._rows("SELECT name FROM objects")}

    def add(self, made: Listed, under: Ticket) -> None:
        """Add an object that was created under this ticket. Do nothing if the ticket has changed since."""
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
        """Replace the index by a listing made after `before` was read. Return True if anything is gone.

        With `now`, the listing was made under that ticket, which is valid from here on. Otherwise a listing older
        than the present ticket is ignored.
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
                # Content sent earlier may be among what is gone, so all packs of this machine are checked again.
                db.execute("DELETE FROM sent")
            if now is not None:
                _note(db, "fence", now.fence)
                _note(db, "salt", now.salt)
            return bool(gone or doomed)

    # Packs of this machine

    def sent(self) -> dict[int, int]:
        """Return up to where each pack is known to be in the bucket."""
        return dict(self._rows("SELECT pack, end FROM sent"))

    def note_sent(self, ends: Mapping[int, int], packs: Collection[int], under: Ticket) -> None:
        """Record up to where packs are in the bucket. Forget all packs but `packs`, which exist here."""
        with self._writing() as db:
            if self.ticket() != under:
                return
            db.executemany("INSERT OR REPLACE INTO sent VALUES (?, ?)", ends.items())
            for number in self.sent().keys() - packs:
                db.execute("DELETE FROM sent WHERE pack = ?", (number,))

    def close(self) -> None:
        at_fork.unwatch(self)
        with self._lock:
            self._disconnect()


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
