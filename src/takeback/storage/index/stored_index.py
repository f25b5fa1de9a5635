"""An index of a history in a SQLite database of its own.

Nothing in it is the truth, so whatever is odd about it is answered by making it again. Any process may add to it, one
at a time. What a process has read stays valid while others add: a posting is never
changed, and a history leaves out those that are later than where it began.

The database of an index is trusted only as this program left it. So the seal names the file as it was then: its
inode, its size, and the times that the kernel sets at each write. An edit by another program, a truncation, a copy
and a write that was cut short all show, and the index is made again. The journal is the only truth.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import apsw
import msgspec

from takeback.core.change import Target
from takeback.core.folds import changes_of
from takeback.core.postings import END, Flag
from takeback.core.record import Record
from takeback.core.standing import CurrentState, Unindexed
from takeback.errors import CorruptionError, TakebackError
from takeback.ports.index import KeptIndex
from takeback.ports.journal import Journal
from takeback.system import at_fork, durable
from takeback.system.crash_points import crash_point, reach

DATABASE, SEAL, LOCK = "index.db", "index.seal", "index.lock"
FORMAT = 4
SEAL_BYTES_MAX = 4096
CHANGES_KEPT = 10_000
PAGE_ROWS, PAGE_ROWS_MAX = 64, 4096
BUSY_MS = 10_000
MANY_ROWS, LARGE_CACHE_KIB = 50_000, 65_536
"""Whoever makes an index again writes everywhere in it; a process that lives long should not keep its pages."""

WRITING = crash_point("index-writing")
WRITTEN = crash_point("index-written")
SEALED = crash_point("index-sealed")

_SCHEMA = """
CREATE TABLE posting (topic INTEGER, seq INTEGER, PRIMARY KEY (topic, seq)) WITHOUT ROWID;
CREATE TABLE flag (flag INTEGER, action INTEGER, PRIMARY KEY (flag, action)) WITHOUT ROWID;
CREATE TABLE target (resource TEXT, name TEXT, PRIMARY KEY (resource, name)) WITHOUT ROWID;
CREATE TABLE standing (body BLOB);
INSERT INTO standing VALUES ('');
"""
_FLAGS = f"SELECT flag FROM flag WHERE flag IN ({', '.join(str(int(flag)) for flag in Flag)}) AND action = ?"


class StoredIndex(KeptIndex, at_fork.ConnectionHolder):
    """The index beside the journal of a workspace."""

    def __init__(self, folder: Path, journal: Journal) -> None:
        self.position = 0
        self._folder = folder
        self._database, self._seal = folder / DATABASE, folder / SEAL
        self._lock_file = folder / LOCK
        self._journal = journal
        self._db: apsw.Connection | None = None
        self._inode = 0
        self._lock = self.guard = threading.RLock()
        self._records: OrderedDict[int, Record] = OrderedDict()
        self._weight = 0

    # Opening and writing

    def open(self, *, after: int = 0) -> tuple[CurrentState, str]:
        at_fork.watch(self)
        with self._held(fcntl.LOCK_SH) as is_held:
            found = _read_seal(self._seal) if is_held else None
            if found and found.position >= after and found.fits(self._database, self._journal):
                try:
                    standing = self._read_standing()
                except (apsw.Error, msgspec.DecodeError):
                    standing = CurrentState()
                if standing.seq == found.position:
                    self.position, self._inode = found.position, found.inode
                    return standing, ""
        return CurrentState(), self._discard() if is_held else ""

    def again(self) -> StoredIndex:
        with self._lock, suppress(apsw.Error):
            if self.position:
                self._connection()  # what is open stays readable when it is removed
        return StoredIndex(self._folder, self._journal)

    def _read_standing(self) -> CurrentState:
        row = self._connection().execute("SELECT body FROM standing").fetchone()
        return msgspec.json.decode(row[0], type=CurrentState) if row else CurrentState()

    def _discard(self) -> str:
        """Remove an index that does not fit; return what to say of it, or nothing where there was none."""
        was_there = self._database.exists()
        with self._held(fcntl.LOCK_EX) as is_held:
            if is_held:
                self._remove()
        return "the index of the history did not fit the journal, and is made again" if was_there else ""

    def _remove(self) -> None:
        self._let_go()
        for path in (self._seal, self._database, self._database.with_name(f"{DATABASE}-journal")):
            with suppress(OSError):
                _clear(path)

    def write(self, more: Unindexed) -> bool:
        with self._lock, self._held(fcntl.LOCK_EX) as is_held:
            if not is_held:
                return False
            sealed = _read_seal(self._seal)
            there = sealed.position if sealed else 0
            if there < more.position or (sealed and not self._is_mine(sealed)):
                return False  # another program wrote to it, or another process makes it again
            try:
                if sealed is None:
                    self._remove()  # what a process left that was killed before it could seal it
                if there < more.standing.seq:
                    self._write(more, there)
                self._inode = os.stat(self._database).st_ino
                self.position = more.standing.seq
            except (apsw.Error, OSError, TakebackError):
                self._let_go()  # it has no seal that fits, so the next one to open it makes it again
                return False
        return True

    def _is_mine(self, sealed: IndexSeal) -> bool:
        """Return whether the database is the one that this process began with, as it was sealed."""
        is_same = self._inode in (0, sealed.inode)
        return is_same and sealed.format == FORMAT and sealed.stamp == _stamp_of(self._database)

    def _write(self, more: Unindexed, there: int) -> None:
        last = self._journal.get(more.standing.seq)
        if last is None:
            raise CorruptionError(f"event {more.standing.seq} is missing from the journal")
        db = self._connection(make=True)
        rows = sorted((key, seq) for key, seqs in more.postings.items() for seq in seqs)
        if len(rows) > MANY_ROWS:
            db.execute(f"PRAGMA cache_size = -{LARGE_CACHE_KIB}")
        with db:
            reach(WRITING)
            db.executemany("INSERT OR IGNORE INTO posting VALUES (?, ?)", rows)
            for flag in map(int, Flag):
                unset = [
                    (flag, seq) for seq, value in more.flags.items() if seq <= there and not value & flag
                ]
                db.executemany("DELETE FROM flag WHERE flag = ? AND action = ?", unset)
                is_set = sorted((flag, seq) for seq, value in more.flags.items() if value & flag)
                db.executemany("INSERT OR IGNORE INTO flag VALUES (?, ?)", is_set)
            targets = sorted((target.resource, target.name) for target in more.targets)
            db.executemany("INSERT OR IGNORE INTO target VALUES (?, ?)", targets)
            db.execute("UPDATE standing SET body = ?", (msgspec.json.encode(more.standing),))
        reach(WRITTEN)
        _write_seal(self._seal, self._database, last.seq, last.digest)
        reach(SEALED)

    @contextmanager
    def _held(self, how: int) -> Iterator[bool]:
        """Hold the lock of the index in the block; yields False where the folder cannot be written."""
        try:
            fd = os.open(self._lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError:
            yield False
            return
        try:
            fcntl.flock(fd, how)
            yield True
        finally:
            os.close(fd)

    # The connection

    def _connection(self, *, make: bool = False) -> apsw.Connection:
        if self._db is None:
            flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
            if make and not self._database.exists():
                os.close(os.open(self._database, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            db = apsw.Connection(f"file:{quote(os.fsencode(self._database))}", flags=flags)
            db.set_busy_timeout(BUSY_MS)
            db.execute(
                "PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -2048"
            )
            if make and not db.execute("SELECT 1 FROM sqlite_master").fetchone():
                db.execute(_SCHEMA)
            self._db = db
        return self._db

    def _let_go(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close(True)

    def close(self) -> None:
        with self._lock:
            at_fork.unwatch(self)
            self._let_go()

    def hold_still(self) -> None:
        self._lock.acquire()
        self._let_go()

    def go_on(self) -> None:
        self._lock.release()

    def _ask(self, query: str, *values: int | str) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._connection().execute(query, values).fetchall()
            except apsw.Error as error:
                self._discard()
                raise CorruptionError(
                    f"the index of the history cannot be read ({error}); it was removed, nothing else was changed",
                    hint="run the command again: the index is made again from the journal",
                ) from error

    # Questions

    def seqs(self, key: int) -> list[int]:
        return [row[0] for row in self._ask("SELECT seq FROM posting WHERE topic = ? ORDER BY seq", key)]

    def after(self, key: int, seq: int) -> Iterator[int]:
        query = "SELECT seq FROM posting WHERE topic = ? AND seq > ? ORDER BY seq LIMIT ?"
        return self._paged(query, key, seq)

    def size(self, key: int, until: int) -> int:
        query = "SELECT count(*) FROM posting WHERE topic = ? AND seq <= ?"
        return int(self._ask(query, key, until)[0][0])

    def newest(self, key: int, below: int = END) -> Iterator[int]:
        query = "SELECT seq FROM posting WHERE topic = ? AND seq < ? ORDER BY seq DESC LIMIT ?"
        return self._paged(query, key, below)

    def flagged(self, flag: Flag, *, oldest: bool = False) -> Iterator[int]:
        if not self.position:
            return iter(())
        if oldest:
            query = "SELECT action FROM flag WHERE flag = ? AND action > ? ORDER BY action LIMIT ?"
            return self._paged(query, int(flag), 0)
        query = "SELECT action FROM flag WHERE flag = ? AND action < ? ORDER BY action DESC LIMIT ?"
        return self._paged(query, int(flag), END)

    def count_flagged(self, flag: Flag) -> int:
        if not self.position:
            return 0
        return int(self._ask("SELECT count(*) FROM flag WHERE flag = ?", int(flag))[0][0])

    def flags(self, action: int) -> int:
        if not self.position:
            return 0
        return sum(row[0] for row in self._ask(_FLAGS, action))

    def targets(self, resource: str, within: str) -> Iterator[Target]:
        if not self.position:
            return
        below = "name >= ? AND name < ?"
        if within:
            rows = self._ask("SELECT name FROM target WHERE resource = ? AND name = ?", resource, within)
            # The slash is the character before 0: these are the names below a folder, and no others.
            query = f"SELECT name FROM target WHERE resource = ? AND {below} ORDER BY name"
            rows += self._ask(query, resource, f"{within}/", f"{within}0")
        else:
            rows = self._ask("SELECT name FROM target WHERE resource = ? ORDER BY name", resource)
        yield from (Target(resource, str(row[0])) for row in rows)

    def _paged(self, query: str, key: int, place: int) -> Iterator[int]:
        """Yield what comes before or after a place, depending on the query: first a few, then more at a time."""
        page = PAGE_ROWS
        while rows := self._ask(query, key, place, page):
            for row in rows:
                yield int(row[0])
            if len(rows) < page:
                return
            place, page = int(rows[-1][0]), min(page * 4, PAGE_ROWS_MAX)

    def records(self, seqs: Sequence[int]) -> list[Record]:
        wanted = sorted(set(seqs))
        missing = [seq for seq in wanted if seq not in self._records]
        read = {record.seq: record for record in self._journal.pick(missing)} if missing else {}
        found = [known for seq in wanted if (known := read.get(seq) or self._records.get(seq))]
        self._keep(found)
        return found

    def _keep(self, records: Iterable[Record]) -> None:
        """Keep the records that were read last, up to a number of changes in them."""
        with self._lock:
            for record in records:
                if self._records.pop(record.seq, None) is None:
                    self._weight += _weight(record)
                self._records[record.seq] = record
            while self._weight > CHANGES_KEPT and len(self._records) > 1:
                self._weight -= _weight(self._records.popitem(last=False)[1])


def _weight(record: Record) -> int:
    return 10 + len(changes_of(record)) + len(getattr(record.event, "swaps", ()))


def _clear(path: Path) -> None:
    """Remove a file of the index. A folder in its place is not ours: unless it is empty, it is moved aside."""
    try:
        path.unlink()
    except IsADirectoryError:
        try:
            path.rmdir()
        except OSError:
            path.rename(path.with_name(f"{path.name}.aside-{time.time_ns()}"))


# The seal


class IndexSeal(msgspec.Struct, frozen=True):
    """What a fitting index looks like."""

    format: int
    position: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    digest: str
    """The digest of the record at that position."""
    inode: int
    size: int
    modified_ns: int
    changed_ns: int

    def fits(self, path: Path, journal: Journal) -> bool:
        """Return whether the database is as it was sealed, and was made from this journal."""
        if self.format != FORMAT or self.stamp != _stamp_of(path):
            return False
        record = journal.get(self.position)
        return record is not None and record.digest == self.digest

    @property
    def stamp(self) -> tuple[int, int, int, int]:
        return self.inode, self.size, self.modified_ns, self.changed_ns


def _stamp_of(path: Path) -> tuple[int, int, int, int] | None:
    """Return what the kernel says of a file, or None if it is not there."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _read_seal(path: Path) -> IndexSeal | None:
    """Return the seal in a file; None if there is none, or one that cannot be read."""
    try:
        # Whatever stands there under that name: it is not waited for.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            return msgspec.json.decode(file.read(SEAL_BYTES_MAX), type=IndexSeal)
    except (OSError, msgspec.DecodeError):
        return None


def _write_seal(path: Path, database: Path, position: int, digest: str) -> None:
    """Seal the database as it is now."""
    stamp = _stamp_of(database)
    assert stamp is not None
    body = msgspec.json.encode(IndexSeal(FORMAT, position, digest, *stamp))
    with durable.replacing(path, synced=False, named=False) as fd:
        os.write(fd, body)
