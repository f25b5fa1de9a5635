"""The anchor: behind is normal, ahead is not, and a torn line says nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from takeback.core.events import CheckpointTaken
from takeback.errors import BackendError, CorruptionError
from takeback.storage.journal.anchor import Anchor
from takeback.storage.journal.sqlite.journal import SqliteJournal
from takeback.testing import crash


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal of ten events, closed."""
    path = tmp_path / "journal.db"
    append(path, 10)
    return path


@pytest.fixture
def anchor(path: Path) -> Path:
    return path.with_suffix(".anchor")


def append(path: Path, count: int = 1) -> None:
    journal = SqliteJournal(path)
    for _ in range(count):
        journal.append([CheckpointTaken()], stream="w")
    journal.close()


def check(path: Path) -> list[tuple[str, str]]:
    journal = SqliteJournal(path)
    found = [(finding.place, finding.what) for finding in journal.check()]
    journal.close()
    return found


def disk_full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_it_has_one_line_for_each_event(path: Path, anchor: Path) -> None:
    journal = SqliteJournal(path)
    assert anchor.read_text() == "".join(f" {record.seq} {record.digest}\n" for record in journal.read())
    journal.close()


@pytest.mark.parametrize("left", [0, 1, 9])
def test_what_it_lacks_is_added_by_the_next_writer(path: Path, anchor: Path, left: int) -> None:
    whole = anchor.read_text()
    anchor.write_text("".join(whole.splitlines(keepends=True)[:left]))
    assert check(path) == []
    append(path)
    assert anchor.read_text().startswith(whole)
    assert len(anchor.read_text().splitlines()) == 11
    assert check(path) == []


def test_a_line_that_a_killed_process_left_out_is_added(path: Path, anchor: Path) -> None:
    lines = anchor.read_text().splitlines(keepends=True)
    anchor.write_text("".join(lines[:6] + lines[7:]))
    append(path)
    assert sorted(anchor.read_text().splitlines(keepends=True)[:10]) == sorted(lines)
    assert check(path) == []


def test_lines_may_stand_out_of_order_and_twice(path: Path, anchor: Path) -> None:
    lines = anchor.read_text().splitlines(keepends=True)
    anchor.write_text("".join(lines[:4] + lines[:2] + lines[:3:-1]))
    append(path)
    assert check(path) == []


@pytest.mark.parametrize("torn", [1, 20, 69])
def test_a_torn_line_says_nothing(path: Path, anchor: Path, torn: int) -> None:
    whole = anchor.read_bytes()
    anchor.write_bytes(whole[:-torn])
    assert check(path) == []
    append(path)
    assert check(path) == []
    assert len(Anchor(anchor).read()[0]) == 11


def test_zeros_of_a_power_cut_say_nothing(path: Path, anchor: Path) -> None:
    anchor.write_bytes(anchor.read_bytes()[:-50] + bytes(400))
    append(path, 2)
    assert check(path) == []


def test_a_line_is_told_from_the_piece_that_another_writer_left_before_it(path: Path, anchor: Path) -> None:
    journal = SqliteJournal(path)
    journal.append([CheckpointTaken()], stream="w")
    with anchor.open("ab") as file:
        file.write(b"12 b3:ab")
    journal.append([CheckpointTaken()], stream="w")
    assert list(journal.check()) == []
    journal.close()


def test_a_line_that_cannot_be_read_is_named(path: Path, anchor: Path) -> None:
    lines = anchor.read_text().splitlines()
    lines[3] = lines[3][:-1]
    anchor.write_text("\n".join(lines) + "\n")
    assert check(path) == [("anchor line 4", "cannot be read")]


def test_lines_that_disagree_are_named(path: Path, anchor: Path) -> None:
    with anchor.open("a") as file:
        file.write(f" 4 b3:{'0' * 64}\n")
    assert check(path) == [("anchor line 11", "lists event 4 again, with a different digest")]


def test_an_anchor_that_disagrees_with_the_last_event_forbids_to_append(path: Path, anchor: Path) -> None:
    lines = anchor.read_text().splitlines()
    lines[9] = f" 10 b3:{'0' * 64}"
    anchor.write_text("\n".join(lines) + "\n")
    assert check(path) == [("event 10", "replaced: the anchor has another digest")]
    with pytest.raises(CorruptionError, match="event 10 is not what was written"):
        append(path)


def test_a_missing_anchor_is_named_for_ever_and_not_laundered(path: Path, anchor: Path) -> None:
    anchor.unlink()
    ((place, what),) = check(path)
    assert place == "anchor" and "is missing" in what
    append(path, 2)
    assert [line.split()[0] for line in anchor.read_text().splitlines()] == ["lost", "11", "12"]
    append(path)
    assert check(path) == [("anchor line 1", "the anchor was lost; it does not cover events up to 10")]


def test_a_new_anchor_is_whole_or_not_there(path: Path, anchor: Path) -> None:
    anchor.unlink()
    for point in ("disk-write", "disk-sync"):
        with crash.at(point, disk_full), pytest.raises(BackendError, match="No space left"):
            append(path)
        assert not anchor.exists()
    append(path)
    assert check(path) == [("anchor line 1", "the anchor was lost; it does not cover events up to 10")]


def test_a_journal_that_was_cut_after_its_anchor_was_lost_is_refused(path: Path, anchor: Path) -> None:
    anchor.write_text("lost 12\n")
    with pytest.raises(CorruptionError, match="events 11 to 12 are missing"):
        append(path)


def test_a_database_that_is_gone_is_noticed(path: Path) -> None:
    path.unlink()
    assert check(path) == [("events 1 to 10", "missing: written earlier, and no longer there")]
    with pytest.raises(CorruptionError, match="events 1 to 10 are missing"):
        append(path)


def test_an_event_stays_recorded_when_its_line_cannot_be_written(path: Path, anchor: Path) -> None:
    journal = SqliteJournal(path)
    journal.append([CheckpointTaken()], stream="w")
    with crash.at("disk-write", disk_full):
        (record,) = journal.append([CheckpointTaken()], stream="w")
    assert record.seq == 12
    assert len(anchor.read_text().splitlines()) == 11
    assert list(journal.check()) == []
    journal.append([CheckpointTaken()], stream="w")
    assert len(anchor.read_text().splitlines()) == 13
    journal.close()


def test_a_sync_that_fails_is_said(path: Path) -> None:
    journal = SqliteJournal(path)
    journal.append([CheckpointTaken()], stream="w")
    with crash.at("disk-sync", disk_full), pytest.raises(BackendError, match="No space left"):
        journal.sync()
    journal.sync()
    journal.close()


def test_it_is_synced_at_checkpoints_and_at_close_and_not_with_each_event(path: Path) -> None:
    journal = SqliteJournal(path)
    with crash.at("", lambda: None) as passes:
        for _ in range(5):
            journal.append([CheckpointTaken()], stream="w")
        assert passes["disk-sync"] == 5, "the log of each commit, and nothing else"
        journal.sync()
        assert passes["disk-sync"] == 6
        journal.close()
        assert passes["disk-sync"] == 7


def test_an_append_whose_sync_fails_is_an_error_and_can_be_repeated_under_its_key(path: Path) -> None:
    journal = SqliteJournal(path)
    journal.append([CheckpointTaken()], stream="w")
    with crash.at("disk-sync", disk_full), pytest.raises(BackendError, match="No space left"):
        journal.append([CheckpointTaken("mine")], stream="w", key="once")
    with crash.at("", lambda: None) as passes:
        (record,) = journal.append([CheckpointTaken("mine")], stream="w", key="once")
        assert passes["disk-sync"] == 1, "what was found under the key is synced before it is acknowledged"
    assert [found for found in journal.read() if found.event == CheckpointTaken("mine")] == [record]
    (later,) = journal.append([CheckpointTaken()], stream="w")
    assert {record.seq, later.seq} <= journal.anchor.read()[0].keys(), (
        "what was left out is anchored after all"
    )
    assert list(journal.check()) == []
    journal.close()


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    sizes: list[int] = []
    pread = os.pread

    def counted(fd: int, size: int, start: int) -> bytes:
        sizes.append(size)
        return pread(fd, size, start)

    monkeypatch.setattr("takeback.storage.journal.anchor.os.pread", counted)
    return sizes


def test_opening_reads_the_end_of_a_long_anchor_only(tmp_path: Path, bytes_read: list[int]) -> None:
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path)
    for _ in range(20):
        journal.append([CheckpointTaken()] * 500, stream="w")
    journal.close()
    assert path.with_suffix(".anchor").stat().st_size > 700_000
    bytes_read.clear()
    append(path)
    assert sum(bytes_read) < 10_000


def test_a_long_unreadable_end_does_not_hide_the_lines_before_it(path: Path, anchor: Path) -> None:
    anchor.write_bytes(anchor.read_bytes() + b"junk\n" * 20_000)
    assert Anchor(anchor).tail().high == 10
