"""Journals of every format are read, older ones are migrated, and what is newer or not ours is left alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import apsw
import pytest

from takeback.core.codec import digest
from takeback.core.events import CheckpointTaken, RunBegan, StepBegan
from takeback.core.history import History
from takeback.core.intents import IntentState
from takeback.core.lifecycle import Life
from takeback.errors import CorruptionError, FormatTooNew
from takeback.storage.journal.sqlite import file as sqlite_file
from takeback.storage.journal.sqlite.journal import SqliteJournal
from takeback.testing import crash

FIXTURES = Path(__file__).parent.parent / "fixtures/journals"
FORMATS = range(1, sqlite_file.FORMAT + 1)


def copy_of(version: int, folder: Path) -> Path:
    return copy_named(f"format-{version}", folder)


def copy_named(name: str, folder: Path) -> Path:
    for ending in ("db", "anchor"):
        shutil.copy(FIXTURES / f"{name}.{ending}", folder / f"journal.{ending}")
    return folder / "journal.db"


def snapshot(folder: Path) -> dict[str, str]:
    return {file.name: digest(file.read_bytes()) for file in folder.iterdir()}


def test_there_is_a_journal_and_a_migration_for_each_format() -> None:
    assert [number for number, _ in sqlite_file.scripts(after=0)] == list(FORMATS)
    assert sorted(file.name for file in FIXTURES.glob("format-*.db")) == [
        f"format-{version}.db" for version in FORMATS
    ]


@pytest.mark.parametrize("version", FORMATS)
def test_each_format_is_read_folded_and_verified(version: int, tmp_path: Path) -> None:
    journal = SqliteJournal(copy_of(version, tmp_path))
    history = History.of(journal.read())
    assert history.breaches == []
    assert history.runs["r2"].life is Life.FAILED
    assert history.runs["r12"].life is Life.INTERRUPTED
    assert list(journal.check()) == []
    assert {record.seq for record in journal.read() if record.compacted_us} == (
        {15, 16, 17, 22, 23, 25, 26} if version >= 6 else set()
    )
    assert [record.seq for record in journal.find("begin-1")] == [2, 3]
    journal.append([RunBegan("after")], stream="", key="after")
    assert list(journal.check()) == []
    journal.close()


def test_events_of_version_7_are_read_folded_and_verified(tmp_path: Path) -> None:
    journal = SqliteJournal(copy_named("events-7", tmp_path))
    records = list(journal.read())
    assert {record.envelope.v for record in records} == {7}
    history = History.of(records)
    assert history.breaches == [] and history.forgets == [28]
    assert history.accepted == {"takeback.toml": "b3:toml"}
    assert list(journal.check()) == []
    journal.close()


@pytest.mark.parametrize("version", FORMATS)
def test_the_outbox_of_each_format_is_that_of_its_events(version: int, tmp_path: Path) -> None:
    journal = SqliteJournal(copy_of(version, tmp_path))
    states = {queued.id: queued.state for queued in journal.outbox.page()}
    journal.close()
    assert states == ({"i16": IntentState.DELIVERED} if version >= 3 else {})


@pytest.mark.parametrize("version", FORMATS)
def test_a_migrated_journal_is_as_a_new_one(version: int, tmp_path: Path) -> None:
    SqliteJournal(copy_of(version, tmp_path)).close()
    SqliteJournal(tmp_path / "new.db").close()
    schemas = []
    for name in ("journal.db", "new.db"):
        db = apsw.Connection(str(tmp_path / name))
        assert db.pragma("user_version") == sqlite_file.FORMAT
        schemas.append(db.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name").fetchall())
        db.close()
    assert schemas[0] == schemas[1]


def test_a_key_of_an_old_journal_still_writes_once(tmp_path: Path) -> None:
    journal = SqliteJournal(copy_of(1, tmp_path))
    with pytest.raises(Exception, match="something else"):
        journal.append([StepBegan("other")], stream="r2", key="begin-1")
    journal.close()


def test_a_migration_that_is_killed_midway_leaves_the_old_format_whole(tmp_path: Path) -> None:
    path = copy_of(1, tmp_path)
    killed = crash.run("journal-migrating", 1, ["tests.crash.journal_worker:open_and_close", path])
    assert killed.returncode == crash.KILLED, killed.stderr
    db = apsw.Connection(str(path))
    assert db.pragma("user_version") == 1
    db.close()
    journal = SqliteJournal(path)
    assert list(journal.check()) == []
    assert journal.head().count == 13
    journal.close()


@pytest.mark.parametrize("nth", range(1, sqlite_file.FORMAT + 1))
def test_a_creation_that_is_killed_midway_is_begun_again(nth: int, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    killed = crash.run("journal-migrating", nth, ["tests.crash.journal_worker:open_and_close", path])
    assert killed.returncode == crash.KILLED, killed.stderr
    journal = SqliteJournal(path)
    journal.append([CheckpointTaken()], stream="w")
    assert list(journal.check()) == []
    journal.close()


def test_a_migration_that_fails_leaves_the_old_format_whole(tmp_path: Path) -> None:
    path = copy_of(1, tmp_path)

    def fail() -> None:
        raise apsw.FullError("disk full")

    with crash.at("journal-migrating", fail), pytest.raises(Exception, match="disk is full"):
        SqliteJournal(path)
    assert sqlite_file.peek(path)[1] == 1
    SqliteJournal(path).close()
    assert sqlite_file.peek(path)[1] == sqlite_file.FORMAT


def test_a_newer_format_is_refused_untouched(tmp_path: Path) -> None:
    path = copy_of(2, tmp_path)
    db = apsw.Connection(str(path))
    db.execute("PRAGMA user_version = 99")
    db.close()
    before = snapshot(tmp_path)
    with pytest.raises(FormatTooNew, match="format 99; this program reads up to 6"):
        SqliteJournal(path)
    assert snapshot(tmp_path) == before


def test_a_newer_format_that_is_still_in_the_log_is_refused(tmp_path: Path) -> None:
    path = copy_of(2, tmp_path)
    db = apsw.Connection(str(path))
    db.execute("PRAGMA user_version = 99")  # in the WAL, as long as this one is open
    with pytest.raises(FormatTooNew):
        SqliteJournal(path)
    db.close()


def test_events_of_a_newer_format_are_refused_by_place(tmp_path: Path) -> None:
    path = copy_of(2, tmp_path)
    db = apsw.Connection(str(path))
    body = b'{"at_us":1,"event":{"type":"from-the-future"},"n":7,"prev":"","seq":14,"stream":"w","v":99}'
    row = (14, "w", 7, digest(body), body)
    db.execute("INSERT INTO events (seq, stream, n, digest, body) VALUES (?, ?, ?, ?, ?)", row)
    db.close()
    journal = SqliteJournal(path)
    with pytest.raises(FormatTooNew, match="event 14 was written in event format 99"):
        list(journal.read())
    (finding,) = journal.check()
    assert finding.seq == 14 and "event format 99" in finding.what
    journal.close()


def test_a_file_that_is_no_database_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(b"not a database, and longer than a header of one " * 40)
    before = path.read_bytes()
    with pytest.raises(CorruptionError, match="not a Takeback journal"):
        SqliteJournal(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["journal.db"]


@pytest.mark.parametrize("application", [0, 77])
def test_a_database_of_another_program_is_refused_untouched(application: int, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    db = apsw.Connection(str(path))
    db.execute(f"CREATE TABLE theirs (x); PRAGMA application_id = {application}; PRAGMA user_version = 1")
    db.close()
    before = path.read_bytes()
    with pytest.raises(CorruptionError, match="another program"):
        SqliteJournal(path)
    assert path.read_bytes() == before
