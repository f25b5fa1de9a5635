"""Ways to tamper with a journal, as functions from its rows to other rows, and journals to try them on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import cast

import apsw
import msgspec

from takeback.core import ids
from takeback.core.codec import digest
from takeback.core.events import CheckpointTaken, RunBegan, StepBegan
from takeback.core.record import Envelope, seal, unseal
from takeback.ports.journal import Journal
from takeback.storage.journal.batch import JournalRow
from takeback.storage.journal.memory.journal import InMemoryJournal
from takeback.storage.journal.sqlite.journal import SqliteJournal

Tamper = Callable[[list[JournalRow]], list[JournalRow]]

COUNT = 100


def fill(journal: Journal, count: int = COUNT) -> None:
    """Two runs and the workspace, interleaved: r1 has the odd events, r2 and w share the even ones."""
    journal.append([RunBegan("one")], stream="")
    journal.append([RunBegan("two")], stream="")
    for seq in range(3, count + 1):
        stream = "r1" if seq % 2 else ("r2" if seq % 4 else ids.WORKSPACE)
        journal.append([StepBegan(f"step {seq}")], stream=stream, key=f"key {seq}" if seq % 10 == 0 else "")


class Subject:
    """A filled journal whose rows can be changed behind its back."""

    def open(self) -> Journal:
        raise NotImplementedError

    def tamper(self, change: Tamper) -> None:
        raise NotImplementedError


class InMemorySubject(Subject):
    def __init__(self) -> None:
        self._journal = InMemoryJournal()
        fill(self._journal)

    def open(self) -> InMemoryJournal:
        return self._journal

    def tamper(self, change: Tamper) -> None:
        self._journal.rows = change(self._journal.rows)


class SqliteSubject(Subject):
    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal.db"
        journal = SqliteJournal(self.path)
        fill(journal)
        journal.close()

    def open(self) -> SqliteJournal:
        return SqliteJournal(self.path)

    def tamper(self, change: Tamper) -> None:
        tamper_file(self.path, change)


def tamper_file(path: Path, change: Tamper) -> None:
    db = apsw.Connection(str(path))
    found = db.execute("SELECT seq, stream, n, ifnull(key, ''), digest, body FROM events ORDER BY seq")
    rows = [JournalRow(*row) for row in cast("Iterable[JournalRow]", found)]
    db.execute("BEGIN; DROP TABLE events")
    # Without the constraints, since a forger may as well have dropped them.
    db.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, stream, n, key, digest, body)")
    insert = "INSERT INTO events (seq, stream, n, key, digest, body) VALUES (?, ?, ?, nullif(?, ''), ?, ?)"
    db.executemany(insert, change(rows))
    db.execute("COMMIT")
    db.close()


def envelope_of(row: JournalRow) -> Envelope:
    return unseal(row.body, f"event {row.seq}")


def resealed(row: JournalRow, envelope: Envelope) -> JournalRow:
    """The row as if this had been written."""
    body, name = seal(envelope)
    return JournalRow(envelope.seq, envelope.stream, envelope.n, envelope.key, name, body)


def forged(row: JournalRow) -> JournalRow:
    """Another event in the same place, in order in itself."""
    return resealed(row, msgspec.structs.replace(envelope_of(row), event=CheckpointTaken("forged")))


def rechained(rows: list[JournalRow]) -> list[JournalRow]:
    """Every chain and number made right again, as a forger would who knows how."""
    ends: dict[str, tuple[int, str]] = {}
    result = []
    for seq, row in enumerate(rows, 1):
        envelope = envelope_of(row)
        n, prev = ends.get(envelope.stream, (0, ""))
        new = resealed(row, msgspec.structs.replace(envelope, seq=seq, n=n + 1, prev=prev))
        ends[new.stream] = (new.n, new.digest)
        result.append(new)
    return result


def renumbered(rows: list[JournalRow]) -> list[JournalRow]:
    """Only the column made right again."""
    return [row._replace(seq=seq) for seq, row in enumerate(rows, 1)]


def edit_body(seq: int) -> Tamper:
    def change(rows: list[JournalRow]) -> list[JournalRow]:
        row = rows[seq - 1]
        return put(rows, row._replace(body=row.body.replace(b"step ", b"stop ")))

    return change


def edit_and_digest(seq: int) -> Tamper:
    return lambda rows: put(rows, forged(rows[seq - 1]))


def edit_and_rechain(seq: int) -> Tamper:
    return lambda rows: rechained(put(rows, forged(rows[seq - 1])))


def spoil(seq: int) -> Tamper:
    def change(rows: list[JournalRow]) -> list[JournalRow]:
        return put(rows, rows[seq - 1]._replace(body=b"\x00junk", digest=digest(b"\x00junk")))

    return change


def relabel(seq: int, **columns: object) -> Tamper:
    return lambda rows: put(rows, rows[seq - 1]._replace(**columns))  # type: ignore[arg-type]


def insert(seq: int) -> Tamper:
    return lambda rows: renumbered([*rows[: seq - 1], forged(rows[seq - 1]), *rows[seq - 1 :]])


def insert_and_rechain(seq: int) -> Tamper:
    return lambda rows: rechained([*rows[: seq - 1], forged(rows[seq - 1]), *rows[seq - 1 :]])


def swap_bodies(one: int, two: int) -> Tamper:
    def change(rows: list[JournalRow]) -> list[JournalRow]:
        a, b = rows[one - 1], rows[two - 1]
        return put(put(rows, a._replace(body=b.body)), b._replace(body=a.body))

    return change


def swap_rows(one: int, two: int) -> Tamper:
    def change(rows: list[JournalRow]) -> list[JournalRow]:
        a, b = rows[one - 1], rows[two - 1]
        return put(put(rows, b._replace(seq=a.seq)), a._replace(seq=b.seq))

    return change


def delete(first: int, last: int) -> Tamper:
    return lambda rows: [row for row in rows if not first <= row.seq <= last]


def delete_and_renumber(seq: int) -> Tamper:
    return lambda rows: renumbered(delete(seq, seq)(rows))


def delete_and_rechain(seq: int) -> Tamper:
    return lambda rows: rechained(delete(seq, seq)(rows))


def put(rows: list[JournalRow], row: JournalRow) -> list[JournalRow]:
    return [row if old.seq == row.seq else old for old in rows]
