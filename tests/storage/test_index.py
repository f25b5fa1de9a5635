"""An index beside a journal: never the truth, made again whenever it does not fit, and never a wrong answer."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import msgspec
import pytest

from takeback.core.events import RunBegan
from takeback.core.history import History
from takeback.core.postings import Topic, every
from takeback.engine import ledger as ledger_module
from takeback.engine.ledger import Ledger
from takeback.ports.journal import Journal
from takeback.storage.index.stored_index import DATABASE, SEAL, StoredIndex
from takeback.storage.journal.memory.journal import InMemoryJournal
from takeback.storage.journal.sqlite.journal import SqliteJournal
from takeback.system import crash_points
from takeback.testing import crash
from tests.core.answers import answers
from tests.core.random_story import RandomStory

POINTS = sorted(point for point in crash_points.known() if point.startswith("index-"))
SEEDS = range(100) if os.environ.get("TAKEBACK_TEST_ALL") else range(8)


def record(journal: Journal, told: RandomStory, after: int = 0) -> None:
    """Append what a story tells to a real journal, so that all ids are the same."""
    for one in told.records[after:]:
        stream = "" if isinstance(one.event, RunBegan) else one.stream
        (there,) = journal.append([one.event], stream=stream, durable=False)
        assert there.seq == one.seq


def story(seed: int, moves: int = 40) -> RandomStory:
    told = RandomStory(Random(seed), is_stored=True)
    told.play(moves)
    return told


@pytest.fixture(params=["sqlite", "memory"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    journal: Journal = (
        SqliteJournal(tmp_path / "journal.db") if request.param == "sqlite" else InMemoryJournal()
    )
    yield journal
    journal.close()


def opened(folder: Path, journal: Journal) -> tuple[History, StoredIndex, str]:
    """A history that begins with what is indexed, as the next process would have it."""
    index, history = StoredIndex(folder, journal), History()
    standing, notice = index.open()
    history.begin_at(index, standing)
    for one in journal.read(after=history.seq):
        history.apply(one)
    return history, index, notice


def index_all(folder: Path, journal: Journal) -> None:
    history, index, _ = opened(folder, journal)
    assert index.write(history.unindexed())
    index.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_it_answers_as_the_fold_does_wherever_it_ends(seed: int, journal: Journal, tmp_path: Path) -> None:
    chance, told = Random(seed), story(seed, 10)
    done = 0
    while len(told.records) < 90:
        record(journal, told, done)
        done = len(told.records)
        history, index, notice = opened(tmp_path, journal)
        assert notice == "" and answers(history) == answers(History.of(journal.read()))
        if chance.random() < 0.7:
            assert index.write(history.unindexed())
            history.indexed()
            assert answers(history) == answers(History.of(journal.read()))
        index.close()
        told.play(10)
    assert opened(tmp_path, journal)[0].postings.position > 0


def edited(folder: Path) -> None:
    with sqlite3.connect(folder / DATABASE) as db:
        db.execute("DELETE FROM posting WHERE topic = ?", (every(Topic.ROLLBACKS),))
    db.close()


def edited_in_secret(folder: Path) -> None:
    """An edit that sets the times back, as far as a program can."""
    found = os.stat(folder / DATABASE)
    edited(folder)
    os.utime(folder / DATABASE, ns=(found.st_atime_ns, found.st_mtime_ns))


def truncated(folder: Path) -> None:
    os.truncate(folder / DATABASE, os.path.getsize(folder / DATABASE) // 2)


def of_another(folder: Path) -> None:
    other = folder / "other"
    other.mkdir()
    journal = SqliteJournal(other / "journal.db")
    record(journal, story(99))
    index_all(other, journal)
    journal.close()
    for name in (DATABASE, SEAL):
        shutil.move(other / name, folder / name)


def newer(folder: Path) -> None:
    seal = msgspec.json.decode((folder / SEAL).read_bytes())
    (folder / SEAL).write_bytes(msgspec.json.encode(seal | {"format": 99}))


def unsealed(folder: Path) -> None:
    (folder / SEAL).unlink()


def garbled_seal(folder: Path) -> None:
    (folder / SEAL).write_bytes(b"{")


def with_a_seal_beyond_numbers(folder: Path) -> None:
    seal = msgspec.json.decode((folder / SEAL).read_bytes())
    (folder / SEAL).write_text(json.dumps(seal | {"position": 2**63}))


def with_a_seal_that_never_ends(folder: Path) -> None:
    (folder / SEAL).unlink()
    os.mkfifo(folder / SEAL)


def copied(folder: Path) -> None:
    shutil.copy2(folder / DATABASE, folder / "copy")
    os.replace(folder / "copy", folder / DATABASE)


def replaced_by_a_folder(folder: Path) -> None:
    (folder / DATABASE).unlink()
    (folder / DATABASE).mkdir()


def replaced_by_a_folder_with_a_file(folder: Path) -> None:
    replaced_by_a_folder(folder)
    (folder / DATABASE / "mine").write_text("somebody's")


@pytest.mark.parametrize(
    "spoil",
    [
        replaced_by_a_folder,
        replaced_by_a_folder_with_a_file,
        edited,
        edited_in_secret,
        truncated,
        of_another,
        newer,
        unsealed,
        garbled_seal,
        with_a_seal_beyond_numbers,
        with_a_seal_that_never_ends,
        copied,
    ],
)
def test_one_that_does_not_fit_is_made_again_and_named(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    record(journal, story(3))
    index_all(tmp_path, journal)
    spoil(tmp_path)
    history, index, notice = opened(tmp_path, journal)
    assert "the index of the history did not fit the journal" in notice
    assert history.postings.position == 0 and answers(history) == answers(History.of(journal.read()))
    assert index.write(history.unindexed())
    index.close()
    history, _, notice = opened(tmp_path, journal)
    assert notice == "" and history.postings.position == history.seq
    assert answers(history) == answers(History.of(journal.read()))
    aside = [path.read_text() for path in tmp_path.glob("index.db.aside-*/*")]
    assert aside == ["somebody's"] * (spoil is replaced_by_a_folder_with_a_file), "what is not ours is kept"
    journal.close()


def test_one_that_is_ahead_of_a_truncated_journal_is_not_used(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    record(journal, story(3))
    index_all(tmp_path, journal)
    journal.close()
    with sqlite3.connect(tmp_path / "journal.db") as db:
        db.execute("DELETE FROM events WHERE seq > 20")
    db.close()
    journal = SqliteJournal(tmp_path / "journal.db")
    history, _, notice = opened(tmp_path, journal)
    assert notice and history.seq == 20
    journal.close()


def test_an_edit_while_it_is_open_is_not_written_over_but_made_again(tmp_path: Path) -> None:
    journal, told = SqliteJournal(tmp_path / "journal.db"), story(5)
    record(journal, told)
    index_all(tmp_path, journal)
    done = len(told.records)
    told.play(10)
    record(journal, told, done)
    history, index, _ = opened(tmp_path, journal)
    edited(tmp_path)
    assert not index.write(history.unindexed())
    index.close()
    assert "did not fit" in opened(tmp_path, journal)[2]
    journal.close()


def test_what_a_killed_process_left_unsealed_is_not_built_upon(tmp_path: Path) -> None:
    journal, told = SqliteJournal(tmp_path / "journal.db"), story(5)
    record(journal, told)
    history, index, _ = opened(tmp_path, journal)
    dead = crash.run("index-written", 1, [f"{__name__}:write_index", tmp_path], cwd=Path(__file__).parents[2])
    assert dead.returncode == crash.KILLED and (tmp_path / DATABASE).exists()
    done = len(told.records)
    told.play(30)
    record(journal, told, done)
    for one in journal.read(after=history.seq):
        history.apply(one)
    assert index.write(history.unindexed())
    index.close()
    assert answers(opened(tmp_path, journal)[0]) == answers(History.of(journal.read()))
    journal.close()


def test_an_index_of_a_newer_format_is_left_alone(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    record(journal, story(5))
    history, index, _ = opened(tmp_path, journal)
    index_all(tmp_path, journal)
    newer(tmp_path)
    before = (tmp_path / DATABASE).read_bytes()
    told = story(5, 60)
    record(journal, told, history.seq)
    for one in journal.read(after=history.seq):
        history.apply(one)
    assert not index.write(history.unindexed()) and (tmp_path / DATABASE).read_bytes() == before
    journal.close()


def test_several_add_to_one_index(tmp_path: Path) -> None:
    journal, told = SqliteJournal(tmp_path / "journal.db"), story(7)
    record(journal, told)
    first, of_first, _ = opened(tmp_path, journal)
    second, of_second, _ = opened(tmp_path, journal)
    assert of_first.write(first.unindexed())
    first.indexed()
    for turn in range(6):
        done = len(told.records)
        told.play(8)
        record(journal, told, done)
        for history in (first, second):
            for one in journal.read(after=history.seq):
                history.apply(one)
        writer, index = ((first, of_first), (second, of_second))[turn % 2]
        assert index.write(writer.unindexed())
        writer.indexed()
        whole = answers(History.of(journal.read()))
        assert answers(first) == whole and answers(second) == whole
        assert answers(opened(tmp_path, journal)[0]) == whole
    journal.close()


def test_one_that_cannot_be_written_costs_memory_and_nothing_else(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    record(journal, story(11))
    history, index, notice = opened(tmp_path / "missing", journal)
    assert notice == "" and not index.write(history.unindexed())
    assert answers(history) == answers(History.of(journal.read()))
    journal.close()


def write_index(folder: str) -> None:
    """What a process does that is killed."""
    journal = SqliteJournal(Path(folder) / "journal.db")
    index_all(Path(folder), journal)


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("point", POINTS)
def test_killed_anywhere_it_is_whole_or_made_again(tmp_path: Path, point: str, begun: bool) -> None:
    journal, told = SqliteJournal(tmp_path / "journal.db"), story(13)
    record(journal, told)
    if begun:
        index_all(tmp_path, journal)
        done = len(told.records)
        told.play(20)
        record(journal, told, done)
    dead = crash.run(point, 1, [f"{__name__}:write_index", tmp_path], cwd=Path(__file__).parents[2])
    assert dead.returncode == crash.KILLED, dead.stderr
    history, index, _ = opened(tmp_path, journal)
    assert answers(history) == answers(History.of(journal.read()))
    assert index.write(history.unindexed())
    index.close()
    history, _, notice = opened(tmp_path, journal)
    assert notice == "" and answers(history) == answers(History.of(journal.read()))
    journal.close()


def test_there_are_points_to_be_killed_at() -> None:
    assert POINTS == ["index-sealed", "index-writing", "index-written"]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_ledger_that_keeps_next_to_nothing_at_hand(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "UNINDEXED_MAX", 5)
    monkeypatch.setattr(ledger_module, "LEFT_UNINDEXED", 1)
    told = story(seed, 60)
    journal = SqliteJournal(tmp_path / "journal.db")
    ledger = Ledger(journal, index=StoredIndex(tmp_path, journal))
    for one in told.records:
        ledger.append([one.event], "" if isinstance(one.event, RunBegan) else one.stream, durable=False)
    assert answers(ledger.history) == answers(History.of(journal.read()))
    ledger.close()
    again = Ledger(journal, index=StoredIndex(tmp_path, journal))
    assert answers(again.refresh()) == answers(History.of(journal.read()))
    assert again.history.postings.position == again.history.seq
    journal.close()


def test_making_it_anew_shows_progress_and_tells_of_what_was_thrown_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "BATCH", 10)
    journal = SqliteJournal(tmp_path / "journal.db")
    record(journal, story(17))
    index_all(tmp_path, journal)
    truncated(tmp_path)
    shown: list[tuple[str, int]] = []
    told: list[str] = []

    def progress(what, items, total):  # type: ignore[no-untyped-def]
        shown.append((what, total))
        return items

    ledger = Ledger(journal, index=StoredIndex(tmp_path, journal), progress=progress, tell=told.append)
    history = ledger.refresh()
    assert shown == [("indexing the history", history.seq)] and len(told) == 1
    assert answers(history) == answers(History.of(journal.read()))
    ledger.close()
    journal.close()


if __name__ == "__main__":
    write_index(sys.argv[1])
