"""The statements of the SQLite journal, each a function of a connection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import apsw

from takeback.core.record import Record
from takeback.errors import BackendError
from takeback.ports.journal import Head
from takeback.ports.relocation import Stored
from takeback.storage.journal.batch import NOTHING, record_of
from takeback.storage.journal.stored_journal import EventTable

PAGE_ROWS = 1000
PAGE_BYTES = 4 << 20
LOWEST = -(2**63)

# The casts are for rows that were tampered with: SQLite would store text or a number as content, too.
_ROW = "SELECT seq, stream, n, ifnull(key, ''), digest, CAST(body AS BLOB) FROM events "
_BY_SEQ = _ROW + "WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
_BY_STREAM = _ROW + "WHERE n > ? AND n <= ? AND stream = ? ORDER BY n LIMIT ?"
_BY_KEY = _ROW + "WHERE key = ? ORDER BY seq"
_ONE = _ROW + "WHERE seq = ?"
_HEAD = "SELECT seq, digest FROM events ORDER BY seq DESC LIMIT 1"
_STREAM_HEAD = "SELECT n, digest FROM events WHERE stream = ? ORDER BY n DESC LIMIT 1"
_BEGIN = "BEGIN IMMEDIATE; " + _HEAD
_STREAM_AT = "SELECT n FROM events WHERE stream = ? AND seq <= ? ORDER BY n DESC LIMIT 1"
_DIGESTS = "SELECT seq, digest FROM events WHERE seq > ? ORDER BY seq"
_INSERT = "INSERT INTO events (seq, stream, n, key, digest, body) VALUES (?, ?, ?, nullif(?, ''), ?, ?)"


class SqliteEventTable(EventTable[apsw.Connection]):
    """The events in the database of a journal."""

    def head(self, db: apsw.Connection, stream: str | None = None) -> Head:
        query = db.execute(_HEAD) if stream is None else db.execute(_STREAM_HEAD, (stream,))
        row = cast("tuple[int, str] | None", query.fetchone())
        return Head(*row) if row else NOTHING

    def count_at(self, db: apsw.Connection, stream: str, seq: int) -> int:
        row = cast("tuple[int] | None", db.execute(_STREAM_AT, (stream, seq)).fetchone())
        return row[0] if row else 0

    def get(self, db: apsw.Connection, seq: int) -> Stored | None:
        return cast("Stored | None", db.execute(_ONE, (seq,)).fetchone())

    def find(self, db: apsw.Connection, key: str) -> tuple[Record, ...]:
        return tuple(record_of(row) for row in cast("Iterator[Stored]", db.execute(_BY_KEY, (key,))))

    def page(self, db: apsw.Connection, start: int, end: int, stream: str | None = None) -> list[Stored]:
        rows: list[Stored] = []
        size = 0
        if stream is None:
            cursor = db.execute(_BY_SEQ, (start, end, PAGE_ROWS))
        else:
            cursor = db.execute(_BY_STREAM, (start, end, stream, PAGE_ROWS))
        try:
            for row in cast("Iterator[Stored]", cursor):
                rows.append(row)
                size += len(row[5])
                if size > PAGE_BYTES:
                    break
        except apsw.CorruptError:
            if not rows:
                raise
            # What came before the damage is good; the next page begins with it.
        finally:
            cursor.close(True)
        return rows


def refuse_nesting(db: apsw.Connection) -> None:
    if not db.get_autocommit():
        raise BackendError(
            "this thread is in the middle of an append. Nothing was recorded",
            hint="a signal handler should not write to the journal; let it set a flag",
            retryable=True,
        )


def roll_back(db: apsw.Connection) -> None:
    """Undo the transaction, unless SQLite has done so itself."""
    if not db.get_autocommit():
        db.execute("ROLLBACK")


def insert(db: apsw.Connection, rows: Sequence[Stored]) -> None:
    db.executemany(_INSERT, rows)


def begin(db: apsw.Connection) -> Head:
    """Take the write lock, and give the end of the journal."""
    row = cast("tuple[int, str] | None", db.execute(_BEGIN).fetchone())
    return Head(*row) if row else NOTHING


def digests(db: apsw.Connection, *, after: int) -> Iterator[tuple[int, str]]:
    return cast("Iterator[tuple[int, str]]", db.execute(_DIGESTS, (after,)))


def integrity(db: apsw.Connection) -> list[str]:
    """What SQLite itself finds wrong with the file."""
    texts = [str(text) for (text,) in db.execute("PRAGMA integrity_check(10)")]
    return [" ".join(text.split()) for text in texts if text != "ok"]
