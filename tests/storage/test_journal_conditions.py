"""A full disk, a read-only folder, another owner, damage, a busy writer, a fork: clear words and no loss."""

from __future__ import annotations

import os
import random
import shutil
import stat
import subprocess
import sys
import tracemalloc
from pathlib import Path

import apsw
import pytest

from takeback.core.events import CheckpointTaken
from takeback.core.record import Record
from takeback.errors import BackendError, CorruptionError, UsageError
from takeback.storage.journal.sqlite.journal import SqliteJournal
from takeback.system import private_files
from takeback.system.private_files import private_folder
from takeback.testing import crash


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def filled(path: Path, batches: int, size: int = 1, text: str = "x" * 200) -> SqliteJournal:
    journal = SqliteJournal(path)
    for _ in range(batches):
        journal.append([CheckpointTaken(text)] * size, stream="w")
    return journal


def condition(name: str, *where: Path, wrapper: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [*wrapper, sys.executable, "-m", "tests.storage.journal_conditions", name, *map(str, where)]
    return subprocess.run(command, env=crash.child_environment(), capture_output=True, text=True, timeout=60)


# Who may see it


def test_files_and_folders_are_for_the_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = private_folder(tmp_path / "one" / "two")
        journal = filled(folder / "journal.db", 3)
    finally:
        os.umask(before)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
    assert modes == dict.fromkeys(["journal.db", "journal.db-wal", "journal.db-shm", "journal.anchor"], 0o600)
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    journal.close()


def test_what_was_open_to_others_is_closed(path: Path) -> None:
    filled(path, 1).close()
    path.chmod(0o644)
    path.parent.chmod(0o755)
    private_folder(path.parent)
    SqliteJournal(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def given_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    else:
        monkeypatch.setattr(private_files.os, "geteuid", lambda: 0)  # type: ignore[attr-defined]


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = private_folder(tmp_path / "state")
    given_away(folder, monkeypatch)
    with pytest.raises(BackendError, match=r"state belongs to .*, not to this user"):
        private_folder(folder)


def test_a_file_of_another_user_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(path, 1).close()
    before = path.read_bytes()
    given_away(path, monkeypatch)
    with pytest.raises(BackendError, match=r"journal.db belongs to .*, not to this user"):
        SqliteJournal(path)
    assert path.read_bytes() == before


def test_a_folder_that_all_users_share_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with pytest.raises(BackendError, match="shared by all users"):
        private_folder(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777


def test_a_file_in_the_way_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(BackendError, match="cannot be used"):
        private_folder(tmp_path / "state")
    with pytest.raises(BackendError, match="cannot be used"):
        private_folder(tmp_path / "state" / "deeper")
    with pytest.raises(BackendError, match="cannot be used: No such file"):
        SqliteJournal(tmp_path / "nowhere" / "journal.db")


def test_a_path_that_is_no_text_is_used_as_any_other(tmp_path: Path) -> None:
    folder = private_folder(Path(os.fsdecode(os.fsencode(tmp_path) + b"/odd \xff?%20#name")))
    journal = filled(folder / "journal.db", 2)
    assert list(journal.check()) == []
    journal.close()
    assert {file.name for file in folder.iterdir()} == {"journal.db", "journal.anchor"}


# Where it cannot be written


def test_a_folder_or_file_that_is_read_only_is_said() -> None:
    result = condition("read_only")
    assert result.returncode == 0, result.stderr


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    flags = ["-m"] if os.geteuid() == 0 else ["-Urm"]
    if shutil.which("unshare") is None or subprocess.run(["unshare", *flags, "true"]).returncode:
        pytest.skip("not on this platform: no mount of one's own")
    result = condition("small_disk", tmp_path, wrapper=("unshare", *flags))
    assert result.returncode == 0, result.stderr


def test_files_that_may_not_grow_lose_nothing(tmp_path: Path) -> None:
    result = condition("small_files", tmp_path)
    assert result.returncode == 0, result.stderr


def test_a_file_that_vanishes_while_it_is_open_is_noticed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = filled(path, 3)
    path.unlink()
    for _ in range(2):
        with pytest.raises(CorruptionError, match="removed or replaced while it was open"):
            journal.append([CheckpointTaken()], stream="w")
    journal.close()


def test_a_closed_journal_says_so(path: Path) -> None:
    journal = filled(path, 1)
    journal.close()
    with pytest.raises(UsageError, match="closed"):
        journal.append([CheckpointTaken()], stream="w")


# Damage


@pytest.mark.parametrize("damage", ["zeros", "noise"])
def test_damage_to_any_page_is_named_and_the_rest_still_comes_back(damage: str, path: Path) -> None:
    journal = filled(path, 4, 50)
    written = {record.seq: record for record in journal.read()}
    journal.close()
    good = path.read_bytes()
    for page in range(len(good) // 4096):
        content = bytes(4096) if damage == "zeros" else random.Random(page).randbytes(4096)
        path.write_bytes(good[: page * 4096] + content + good[(page + 1) * 4096 :])
        assert_damage_is_named(path, written)


def assert_damage_is_named(path: Path, written: dict[int, Record]) -> None:
    try:
        journal = SqliteJournal(path)
    except CorruptionError:
        return  # the first page: nothing can be asked of such a file
    findings = list(journal.check())
    assert findings
    assert len(findings) <= 20
    unreadable = 0
    for seq, record in written.items():
        try:
            assert journal.get(seq) in (record, None)
        except CorruptionError:
            unreadable += 1
    assert unreadable <= 200
    if unreadable:
        with pytest.raises(CorruptionError):
            list(journal.read())
    journal.close()


def test_an_event_on_a_damaged_page_is_named(path: Path) -> None:
    filled(path, 4, 50).close()
    content = bytearray(path.read_bytes())
    place = content.index(b'"seq":77,') // 4096 * 4096
    content[place : place + 4096] = b"\xee" * 4096
    path.write_bytes(bytes(content))
    journal = SqliteJournal(path)
    named = [finding for finding in journal.check() if finding.place.startswith("event")]
    assert any(finding.seq <= 77 and "damaged on the disk" in finding.what for finding in named), named
    seen: list[int] = []
    with pytest.raises(CorruptionError, match=r"event \d+ cannot be read") as caught:
        seen.extend(record.seq for record in journal.read())
    assert f"event {len(seen) + 1} " in str(caught.value)
    assert seen == list(range(1, len(seen) + 1)) and 60 < len(seen) < 77
    journal.close()


def test_a_table_that_was_dropped_is_said(path: Path) -> None:
    filled(path, 3).close()
    db = apsw.Connection(str(path))
    db.execute("DROP TABLE events")
    db.close()
    journal = SqliteJournal(path)
    assert [finding.place for finding in journal.check()] == ["events 1 to 3"]
    with pytest.raises(CorruptionError, match="no such table"):
        journal.append([CheckpointTaken()], stream="w")
    journal.close()


# Many


def test_a_writer_that_holds_the_lock_too_long_is_named(path: Path) -> None:
    journal = SqliteJournal(path, busy_s=0.05)
    holder = apsw.Connection(str(path))
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(
        BackendError, match=rf"process {os.getpid()} has been writing it|another process"
    ) as caught:
        journal.append([CheckpointTaken()], stream="w")
    assert caught.value.retryable
    assert journal.head().count == 0
    holder.execute("ROLLBACK")
    journal.append([CheckpointTaken()], stream="w")
    holder.close()
    journal.close()


def test_a_second_journal_of_the_same_process_does_not_drop_the_locks_of_the_first(path: Path) -> None:
    journal = filled(path, 3)
    SqliteJournal(path).close()
    crash.run("never", 1, ["tests.crash.journal_worker:open_and_close", path])
    assert path.with_name("journal.db-wal").exists(), "another process believed to be the last"
    journal.append([CheckpointTaken()], stream="w")
    journal.close()


def test_a_fork_takes_no_connection_along(path: Path) -> None:
    result = condition("forks", path)
    assert result.returncode == 0, result.stderr


def test_an_interrupt_leaves_nothing_half_done(path: Path) -> None:
    journal = filled(path, 1)

    def interrupt() -> None:
        raise KeyboardInterrupt

    for point, count in (("journal-before-begin", 1), ("journal-inside", 1), ("journal-committed", 2)):
        with crash.at(point, interrupt), pytest.raises(KeyboardInterrupt):
            journal.append([CheckpointTaken()], stream="w")
        assert journal.head().count == count
        assert list(journal.check()) == []
    journal.append([CheckpointTaken()], stream="w")
    assert list(journal.check()) == []
    journal.close()


def test_a_signal_handler_that_appends_inside_an_append_gets_an_error(path: Path) -> None:
    journal = filled(path, 1)

    def handler() -> None:
        with pytest.raises(BackendError, match="this thread is already appending"):
            journal.append([CheckpointTaken("inner")], stream="w")

    with crash.at("journal-inside", handler):
        journal.append([CheckpointTaken("outer")], stream="w")
    assert journal.head().count == 2
    assert list(journal.check()) == []
    journal.close()


# Size


@pytest.mark.parametrize("count", [20_000, pytest.param(100_000, marks=pytest.mark.sweep)])
def test_reading_takes_memory_for_a_page_only(count: int, path: Path) -> None:
    journal = filled(path, count // 1000, 1000)
    assert peak_of(journal) < (3 << 20)
    journal.close()


def test_large_events_make_short_pages(path: Path) -> None:
    journal = filled(path, 4, 10, text="x" * (1 << 20))
    assert peak_of(journal) < (16 << 20)
    journal.close()


def peak_of(journal: SqliteJournal) -> int:
    tracemalloc.start()
    try:
        assert sum(1 for _ in journal.read()) == journal.head().count
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_slow_reader_does_not_let_the_log_grow(path: Path) -> None:
    journal = filled(path, 2, 1000)
    reader = journal.read()
    next(reader)
    for _ in range(40):
        journal.append([CheckpointTaken("x" * 200)] * 500, stream="w")
    assert path.with_name("journal.db-wal").stat().st_size < (8 << 20)
    assert sum(1 for _ in reader) == 1999
    journal.close()
