"""Other processes have the database open, or write to it, while it is captured and put back."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from takeback.cli.render.command import summary_lines
from takeback.core.entities import RecordedAction
from takeback.engine.tracking.command import Child, CommandResult
from takeback.errors import ConflictError, RollbackIncomplete
from takeback.resources.sqlite import reading, writing
from takeback.testing import crash
from takeback.workspace.workspace import Workspace

from .tool import ask, fill, picture, sql

WRITER = """
import sqlite3, sys, random
db = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
db.execute("PRAGMA wal_autocheckpoint = 20")
chance, rounds = random.Random(1), 0
print("ready", flush=True)
import os, select
while not select.select([sys.stdin], [], [], 0)[0]:
    amount, pad = chance.randrange(100), "x" * chance.randrange(3000)
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO moved VALUES (?, ?)", (amount, pad))
    db.execute("UPDATE account SET total = total - ? WHERE name = 'a'", (amount,))
    db.execute("UPDATE account SET total = total + ? WHERE name = 'b'", (amount,))
    if chance.random() < 0.1:
        db.execute("DELETE FROM moved WHERE rowid % 3 = 0")
        db.execute("UPDATE account SET total = (SELECT coalesce(sum(amount), 0) FROM moved) WHERE name = 'b'")
        db.execute("UPDATE account SET total = -(SELECT coalesce(sum(amount), 0) FROM moved) WHERE name = 'a'")
    db.execute("COMMIT")
    rounds += 1
db.close()
print(rounds, flush=True)
"""

BOOKS = "SELECT (SELECT sum(total) FROM account), (SELECT max(total) FROM account) - sum(amount) FROM moved"

HEAD = "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)\n"
CLIENT = f"{HEAD}for line in sys.stdin: print(db.execute(line).fetchall(), flush=True)"
HOLDER = f"{HEAD}for line in sys.argv[2:]: print(db.execute(line).fetchall(), flush=True)\nsys.stdin.read()"


def started(code: str, path: Path, *given: str) -> subprocess.Popen[str]:
    """Another process, to talk with."""
    command = [sys.executable, "-c", code, str(path), *given]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@contextmanager
def writer(path: Path) -> Iterator[None]:
    """Another process that writes all the time, in transactions over two tables."""
    process = started(WRITER, path)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    try:
        yield
    finally:
        rounds, _ = process.communicate("stop\n", timeout=90)
    assert process.returncode == 0
    assert int(rounds) > 0


def books(path: Path, mode: str) -> None:
    fill(path, mode)
    sql(
        path,
        "CREATE TABLE account (name PRIMARY KEY, total); CREATE TABLE moved (amount, pad);"
        "INSERT INTO account VALUES ('a', 0), ('b', 0); INSERT INTO moved VALUES (0, '')",
    )


@pytest.mark.parametrize("mode", ["delete", "wal", "truncate"])
def test_a_capture_is_never_torn(tmp_path: Path, mode: str) -> None:
    path, image = tmp_path / "app.db", tmp_path / "image"
    books(path, mode)
    seen, turns = set[str](), 0
    with writer(path):
        # At least so many; and as long as the writer has not come to write, pytest's own limit ends the wait.
        while turns < 40 or len(seen) < 2:
            turns += 1
            image.write_bytes(b"")
            taken = reading.take(os.fsencode(path), os.fsencode(image))
            assert taken.image is not None, taken.problem
            assert ask(image, BOOKS) == [(0, 0)]
            assert ask(image, "PRAGMA integrity_check") == [("ok",)]
            seen.add(taken.image.digest)
    assert len(seen) > 1


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_an_agent_is_taken_back_while_another_writes(tb: Workspace, root: Path, mode: str) -> None:
    path = root / "app.db"
    books(path, mode)
    before = picture(path)
    with tb.recording("agent"):
        sql(
            path,
            "DELETE FROM orders WHERE id < 42; UPDATE customers SET name = 'nobody'; PRAGMA user_version = 9",
        )
    with writer(path):
        report = tb.undo()
    assert report.verdict == "clean"
    after = picture(path)
    assert ask(path, BOOKS) == [(0, 0)]
    assert len(after["moved"]) > 1
    assert {name: rows for name, rows in after.items() if name not in ("moved", "account")} == {
        name: rows for name, rows in before.items() if name not in ("moved", "account")
    }


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_open_connections_see_what_was_put_back(tb: Workspace, root: Path, mode: str) -> None:
    path = root / "app.db"
    fill(path, mode)
    idle = started(CLIENT, path)
    assert idle.stdin is not None and idle.stdout is not None

    def told(statement: str) -> str:
        assert idle.stdin is not None and idle.stdout is not None
        print(statement, file=idle.stdin, flush=True)
        return idle.stdout.readline().strip()

    try:
        assert told("SELECT count(*) FROM orders") == "[(60,)]"
        with tb.recording("agent"):
            sql(path, "DROP TABLE stock; DELETE FROM orders; CREATE TABLE other (a)")
        assert told("SELECT count(*) FROM orders") == "[(0,)]"
        assert tb.undo().verdict == "clean"
        assert told("SELECT count(*) FROM orders") == "[(60,)]"
        assert told("SELECT count(*) FROM stock") == "[(2,)]"
        assert told("INSERT INTO notes VALUES ('still', 'works')") == "[]"
    finally:
        idle.communicate(timeout=60)
    assert ask(path, "SELECT more FROM notes WHERE text = 'still'") == [("works",)]
    assert ask(path, "PRAGMA integrity_check") == [("ok",)]


def test_a_transaction_in_the_way_is_named_and_nothing_is_changed(
    tb: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "app.db"
    fill(path, "delete")
    with tb.recording("agent"):
        sql(path, "DELETE FROM orders")
    monkeypatch.setattr(writing, "WRITE_WAIT_S", 0.2)
    reader = started(HOLDER, path, "BEGIN", "SELECT count(*) FROM orders")
    assert reader.stdout is not None
    assert [reader.stdout.readline() for _ in range(2)] == ["[]\n", "[(0,)]\n"]
    try:
        with pytest.raises(RollbackIncomplete) as caught:
            tb.undo()
    finally:
        reader.communicate(timeout=60)
    (failed,) = [item for item in caught.value.report.items if not item.verified]
    assert "another process has had a transaction open in it" in failed.why
    assert ask(path, "SELECT count(*) FROM orders") == [(0,)]
    assert tb.undo().verdict == "clean"
    assert ask(path, "SELECT count(*) FROM orders") == [(60,)]


def test_one_that_is_locked_for_good_is_stated(
    tb: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "app.db"
    fill(path, "delete")
    monkeypatch.setattr(reading, "READ_WAIT_S", 0.2)
    holder = started(HOLDER, path, "BEGIN EXCLUSIVE")
    assert holder.stdout is not None
    assert holder.stdout.readline() == "[]\n"
    try:
        checkpoint = tb.save()
    finally:
        holder.communicate(timeout=60)
    (stated,) = [line for mark in checkpoint.taken.marks for line in mark.stated if "app.db" in line]
    assert "another process has locked it" in stated
    later = tb.save()
    assert not [line for mark in later.taken.marks for line in mark.stated if "app.db" in line]


@contextmanager
def locked(*paths: Path) -> Iterator[None]:
    """Another process keeps everybody out of these."""
    holders = [started(HOLDER, path, "BEGIN EXCLUSIVE") for path in paths]
    try:
        for holder in holders:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "[]\n"
        yield
    finally:
        for holder in holders:
            holder.communicate(timeout=60)


def test_all_that_are_locked_are_waited_for_as_long_as_one(
    tb: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [root / f"{number}.db" for number in range(3)]
    for path in paths:
        sql(path, "CREATE TABLE t (a)")
    monkeypatch.setattr(reading, "READ_WAIT_S", 0.3)
    waits, take = [], reading.take

    def noted(path: bytes, to: bytes, wait_s: float | None = None) -> reading.Taken:
        waits.append(wait_s)
        return take(path, to, wait_s)

    monkeypatch.setattr(reading, "take", noted)
    with locked(*paths):
        checkpoint = tb.save()
    assert len([line for mark in checkpoint.taken.marks for line in mark.stated if "locked" in line]) == 3
    assert len(waits) == 3
    assert waits[0]
    assert waits[1:] == [0, 0]


def test_a_command_is_told_what_was_not_recorded(
    tb: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "app.db"
    fill(path, "delete")
    monkeypatch.setattr(reading, "READ_WAIT_S", 0.2)
    with locked(path), tb.recording("agent"):
        pass
    (action,) = [one for one in tb.log() if isinstance(one, RecordedAction)]
    (line,) = summary_lines(tb.history, action, CommandResult(action.id, Child(0, "")), "agent")[-1:]
    assert "not recorded: app.db" in line
    assert "another process has locked it" in line


def test_one_that_is_locked_when_it_is_taken_back_says_so(
    tb: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "app.db"
    fill(path, "delete")
    with tb.recording("agent"):
        sql(path, "DELETE FROM orders")
        (root / "file").write_text("of the agent")
    tb.save()
    monkeypatch.setattr(reading, "READ_WAIT_S", 0.2)
    for choice in ("stop", "overwrite", "stop"):
        if choice == "overwrite":
            # What is known of it does not count any more, so it has to be read, and cannot be.
            os.utime(path)
        with locked(path), pytest.raises(ConflictError, match="another process has locked it") as caught:
            tb.undo(on_conflict=choice)
        assert "try again" in str(caught.value.hint)
        assert "overwrite" not in str(caught.value.hint)
        assert (root / "file").exists()
    assert tb.undo().verdict == "clean"
    assert ask(path, "SELECT count(*) FROM orders") == [(60,)]


def test_a_capture_leaves_the_files_alone(tmp_path: Path) -> None:
    """Neither the log of a writer that is still connected, nor that of one that died, is touched or folded in."""
    path, image = tmp_path / "app.db", tmp_path / "image"
    fill(path, "wal")
    with closing(sqlite3.connect(path)) as db:
        db.execute("INSERT INTO notes VALUES ('in the log', 1)")
        db.commit()
        before = {
            file.name: file.read_bytes() for file in tmp_path.iterdir() if not file.name.endswith("-shm")
        }
        copies = tmp_path / "copy"
        copies.mkdir()
        for name, data in before.items():
            (copies / name).write_bytes(data)
    for folder in (tmp_path, copies):
        files = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
        image.write_bytes(b"")
        assert reading.take(os.fsencode(folder / "app.db"), os.fsencode(image)).image is not None
        assert ask(image, "SELECT count(*) FROM notes WHERE text = 'in the log'") == [(1,)]
        left = {f.name: f.read_bytes() for f in folder.iterdir() if f.is_file() and f != image}
        assert left == {name: data for name, data in files.items() if name != "image"}


def test_a_hot_journal_is_mended_in_a_copy(tmp_path: Path) -> None:
    path, image = tmp_path / "app.db", tmp_path / "image"
    fill(path, "delete")
    before = picture(path)
    script = (
        "import sqlite3, os, sys\n"
        "db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "db.execute('PRAGMA cache_size = 1')\n"
        "db.execute('BEGIN IMMEDIATE')\n"
        "db.execute('CREATE TABLE big (a)')\n"
        "for n in range(300): db.execute('INSERT INTO big VALUES (zeroblob(3000))')\n"
        "db.execute('UPDATE customers SET name = 1')\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(path)])
    journal = tmp_path / "app.db-journal"
    hot = path.read_bytes(), journal.read_bytes()
    image.write_bytes(b"")
    taken = reading.take(os.fsencode(path), os.fsencode(image))
    assert taken.image is not None, taken.problem
    assert (path.read_bytes(), journal.read_bytes()) == hot
    assert picture(image) == before


def test_a_database_that_this_process_has_open_keeps_its_locks(tb: Workspace, root: Path) -> None:
    """Two copies of SQLite in one process drop each other's locks: so we go to another process."""
    path = root / "app.db"
    fill(path, "delete")
    with closing(sqlite3.connect(path, isolation_level=None)) as mine:
        mine.execute("BEGIN IMMEDIATE")
        mine.execute("INSERT INTO notes VALUES ('mine', 1)")
        tb.save()
        with pytest.raises(subprocess.CalledProcessError):
            subprocess.run(
                [
                    sys.executable,
                    "-c",
                    "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')",
                    str(path),
                ],
                check=True,
                stderr=subprocess.DEVNULL,
            )
        mine.execute("COMMIT")


def test_what_moved_since_the_plan_is_not_overwritten(tmp_path: Path) -> None:
    path, image, scratch = (tmp_path / name for name in ("app.db", "image", "scratch"))
    fill(path, "delete")
    for file in (image, scratch):
        file.write_bytes(b"")
    taken = reading.take(os.fsencode(path), os.fsencode(image))
    assert taken.image is not None
    sql(path, "INSERT INTO notes VALUES ('later', 1)")
    now = picture(path)
    place, wanted, empty = (os.fsencode(file) for file in (path, image, scratch))
    assert writing.put(place, wanted, taken.image.digest, empty, wal=False) == writing.MOVED
    assert writing.remove(place, taken.image.digest, empty, bytes(tmp_path)) == writing.MOVED
    assert picture(path) == now


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_write_at_the_last_instant_is_noticed(tmp_path: Path, mode: str) -> None:
    """Between the comparison and the lock there is a moment."""
    path, image, scratch = (tmp_path / name for name in ("app.db", "image", "scratch"))
    fill(path, mode)
    for file in (image, scratch):
        file.write_bytes(b"")
    place, wanted, empty = (os.fsencode(file) for file in (path, image, scratch))
    taken = reading.take(place, wanted)
    assert taken.image is not None
    late = lambda: sql(path, "INSERT INTO notes VALUES ('late', 1)")  # noqa: E731  done once, at one place
    with crash.at(writing.EXPECTED, late):
        assert writing.put(place, wanted, taken.image.digest, empty, wal=mode == "wal") == writing.MOVED
    assert ask(path, "SELECT more FROM notes WHERE text = 'late'") == [(1,)]
    assert ask(path, "PRAGMA integrity_check") == [("ok",)]
