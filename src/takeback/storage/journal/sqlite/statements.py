"""The statements of the SQLite journal, as functions of a connection."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import cast

import apsw

from takeback.errors import BackendError
from takeback.ports.journal import Head
from takeback.ports.relocation import Stored
from takeback.storage.journal.batch import NOTHING
from takeback.storage.journal.stored_journal import EventTable

HEAD_BYTES = 64
"""So much of a packed body says what it is stored against."""
MANY = 32
"""So many rows are read with one statement."""
PAGE_ROWS = 1000
PAGE_BYTES = 4 << 20
LOWEST = -(2**63)

# The casts are for rows that were tampered with: SQLite also stores text or a number in this column.
_ROW = "SELECT seq, stream, n, ifnull(key, ''), digest, CAST(body AS BLOB) FROM events "
_BY_SEQ = _ROW + "WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
_BY_STREAM = _ROW + "WHERE n > ? AND n <= ? AND stream = ? ORDER BY n LIMIT ?"
_BY_KEY = _ROW + "WHERE key = ? ORDER BY seq"
_ONE = _ROW + "WHERE seq = ?"
_SOME = _ROW + "WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq"
_HEAD = "SELECT seq, digest FROM events ORDER BY seq DESC LIMIT 1"
_STREAM_HEAD = "SELECT n, digest FROM events WHERE stream = ? ORDER BY n DESC LIMIT 1"
_BEGIN = "BEGIN IMMEDIATE; " + _HEAD
_STREAM_AT = "SELECT n, digest FROM events WHERE stream = ? AND seq <= ? ORDER BY n DESC LIMIT 1"
_DIGESTS = "SELECT seq, digest FROM events WHERE seq > ? ORDER BY seq"
_REPLACE = "UPDATE events SET body = ? WHERE seq = ? AND digest = ? AND substr(body, 1, 1) <> x'02'"
_PACKED_HEADS = "SELECT seq, substr(body, 1, ?) FROM events WHERE seq > ? AND substr(body, 1, 1) = x'01'"
_INSERT = "INSERT INTO events (seq, stream, n, key, digest, body) VALUES (?, ?, ?, nullif(?, ''), ?, ?)"


class SqliteEventTable(EventTable[apsw.Connection]):
    """The events in the database of a journal."""

    def head(self, db: apsw.Connection, stream: str | None = None) -> Head:
        query = db.execute(_HEAD) if stream is None else db.execute(_STREAM_HEAD, (stream,))
        row = cast("tuple[int, str] | None", query.fetchone())
        return Head(*row) if row else NOTHING

    def head_at(self, db: apsw.Connection, stream: str, seq: int) -> Head:
        row = cast("tuple[int, str] | None", db.execute(_STREAM_AT, (stream, seq)).fetchone())
        return Head(*row) if row else NOTHING

    def row(self, db: apsw.Connection, seq: int) -> Stored | None:
        return cast("Stored | None", db.execute(_ONE, (seq,)).fetchone())

    def rows(self, db: apsw.Connection, seqs: Sequence[int]) -> list[Stored]:
        if len(seqs) < MANY:
            return super().rows(db, seqs)
        return cast("list[Stored]", db.execute(_SOME, (json.dumps(list(seqs)),)).fetchall())

    def keyed(self, db: apsw.Connection, key: str) -> Iterator[Stored]:
        return cast("Iterator[Stored]", db.execute(_BY_KEY, (key,)))

    def replace(self, db: apsw.Connection, rows: Sequence[Stored]) -> None:
        db.executemany(_REPLACE, [(row[5], row[0], row[4]) for row in rows])

    def packed_heads(self, db: apsw.Connection, after: int) -> list[tuple[int, bytes]]:
        return cast("list[tuple[int, bytes]]", db.execute(_PACKED_HEADS, (HEAD_BYTES, after)).fetchall())

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
            # The rows before the damage are good; the next page begins with the damage.
        finally:
            cursor.close(True)
        return rows


def refuse_nesting(db: apsw.Connection) -> None:
    if not db.get_autocommit():
        raise BackendError(
            "this thread is already appending. Nothing was recorded",
            hint="do not write to the journal in a signal handler; set a flag there instead",
            retryable=True,
        )


def roll_back(db: apsw.Connection) -> None:
    """Roll back the transaction, unless SQLite has already done so."""
    if not db.get_autocommit():
        db.execute("ROLLBACK")


def insert(db: apsw.Connection, rows: Sequence[Stored]) -> None:
    db.executemany(_INSERT, rows)


def begin(db: apsw.Connection) -> Head:
    """Take the write lock, and return the end of the journal."""
    row = cast("tuple[int, str] | None", db.execute(_BEGIN).fetchone())
    return Head(*row) if row else NOTHING


def digests(db: apsw.Connection, *, after: int) -> Iterator[tuple[int, str]]:
    return cast("Iterator[tuple[int, str]]", db.execute(_DIGESTS, (after,)))


def integrity(db: apsw.Connection) -> list[str]:
    """Return what SQLite itself finds wrong with the file."""
    texts = [str(text) for (text,) in db.execute("PRAGMA integrity_check(10)")]
    return [" ".join(text.split()) for text in texts if text != "ok"]


def shrink(db: apsw.Connection, live_bytes_max: int) -> str:
    """Write the file again without free room. Return why not, if it is too large for that."""
    page, pages, free = (int(db.pragma(name)) for name in ("page_size", "page_count", "freelist_count"))
    if (pages - free) * page > live_bytes_max:
        return f"it has more than {live_bytes_max >> 20} MB, so its free room is used for new records"
    db.execute("VACUUM")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return ""
