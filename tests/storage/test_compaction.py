"""Journals are compacted in place by one contract; in a file the room is free afterwards, and tampering is found."""

from __future__ import annotations

from pathlib import Path

import apsw
import msgspec
import pytest

from takeback.core import compaction
from takeback.core import events as e
from takeback.ports.journal import Journal
from takeback.storage.journal import reduced
from takeback.storage.journal.memory.journal import InMemoryJournal
from takeback.storage.journal.sqlite.journal import SqliteJournal
from takeback.testing.compaction_contract import PLANNED_US, CompactionContract, compacted, fill


class TestInMemoryCompaction(CompactionContract):
    def open(self, where: Path) -> Journal:
        return InMemoryJournal()


class TestSqliteCompaction(CompactionContract):
    def open(self, where: Path) -> Journal:
        return SqliteJournal(where / "journal.db")


def written(path: Path) -> SqliteJournal:
    journal = SqliteJournal(path / "journal.db")
    fill(journal)
    compacted(journal, range(1, 601))
    return journal


def test_the_file_gets_shorter(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    fill(journal)
    journal.close()
    before = (tmp_path / "journal.db").stat().st_size
    journal = SqliteJournal(tmp_path / "journal.db")
    compacted(journal, range(1, 601))
    assert journal.compaction.release() == ""
    size = (tmp_path / "journal.db").stat().st_size
    assert size < before * 0.8 and (tmp_path / "journal.db-wal").stat().st_size == 0
    assert list(journal.check()) == []
    journal.close()


def test_a_large_file_keeps_its_room_for_new_records(tmp_path: Path) -> None:
    journal = written(tmp_path)
    assert "used for new records" in journal.shrink(0)
    journal.close()


def edit(path: Path, seq: int, body: bytes) -> None:
    db = apsw.Connection(str(path / "journal.db"))
    db.execute("UPDATE events SET body = ? WHERE seq = ?", (body, seq))
    db.close()


def body_of(path: Path, seq: int) -> tuple[int, str, int, str, str, bytes]:
    db = apsw.Connection(str(path / "journal.db"))
    query = "SELECT seq, stream, n, ifnull(key, ''), digest, body FROM events WHERE seq = ?"
    (row,) = db.execute(query, (seq,)).fetchall()
    db.close()
    return row  # type: ignore[return-value]


@pytest.mark.parametrize("since", [0, 300])
def test_an_edit_is_found_and_named(tmp_path: Path, since: int) -> None:
    journal = written(tmp_path)
    row = body_of(tmp_path, 501)
    edit(tmp_path, 501, row[5].replace(b"tool", b"fool"))
    (finding,) = journal.check(since=since)
    assert finding.seq == 501 and "changed after it was compacted" in finding.what
    journal.close()


def test_an_edit_with_its_checksum_is_found_by_the_recorded_digest(tmp_path: Path) -> None:
    journal = written(tmp_path)
    row = body_of(tmp_path, 301)
    record = reduced.record_of(row)
    forged = e.ActionBegan("innocent", e.Effect.NONE)
    envelope = msgspec.structs.replace(record.envelope, event=forged)
    whole = (*row[:5], b"{}")
    left = reduced.reduced(whole, type(record)(envelope, record.digest), PLANNED_US)
    edit(tmp_path, 301, left[5])
    assert journal.get(301)
    (finding,) = journal.check()
    assert (
        finding.place == "events 257 to 512" and "not what the compaction with event 601 left" in finding.what
    )
    journal.close()


def test_a_removal_that_no_compaction_names_is_found(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    fill(journal)
    compacted(journal, range(1, 101))
    row = body_of(tmp_path, 200)
    record = journal.get(200)
    assert record
    edit(tmp_path, 200, reduced.reduced(row, record, PLANNED_US)[5])
    (finding,) = journal.check()
    assert finding.seq == 200 and "no recorded compaction names it" in finding.what
    journal.close()


def test_a_missing_compacted_record_is_named_once(tmp_path: Path) -> None:
    journal = written(tmp_path)
    db = apsw.Connection(str(tmp_path / "journal.db"))
    db.execute("DELETE FROM events WHERE seq = 300")
    db.close()
    (finding,) = journal.check()
    assert finding.place == "event 300" and "missing" in finding.what
    journal.close()


def test_a_record_of_a_compaction_that_was_altered_excuses_nothing(tmp_path: Path) -> None:
    journal = written(tmp_path)
    row = body_of(tmp_path, 601)
    edit(tmp_path, 601, row[5].replace(b"ann", b"eve"))
    found = {finding.seq for finding in journal.check()}
    assert 601 in found and 1 in found
    journal.close()


def test_what_is_left_is_much_less() -> None:
    journal = InMemoryJournal()
    fill(journal)
    foreseen = journal.compaction.foresee(compaction.ranges_of(range(1, 601)), PLANNED_US)
    assert foreseen.bytes_after < foreseen.bytes_before * 0.6
