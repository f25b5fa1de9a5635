"""A file of no bytes becomes a database: to SQLite it was an empty one, so it is emptied and not replaced."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from takeback.errors import RollbackIncomplete
from takeback.resources.sqlite import writing
from takeback.testing import crash
from takeback.workspace.workspace import Workspace

from .test_others import CLIENT, started
from .tool import ask, picture, sql

MADE = "CREATE TABLE t (a, b); INSERT INTO t VALUES (1, 'agent')"


class Client:
    """Another process that has the database open all the time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, statement: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{statement}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


@contextmanager
def client(path: Path) -> Iterator[Client]:
    process = started(CLIENT, path)
    try:
        yield Client(process)
    finally:
        process.communicate(timeout=60)


@pytest.fixture
def empty(root: Path) -> Path:
    path = root / "state.db"
    path.touch(mode=0o640)
    return path


def test_it_is_empty_again_and_whoever_has_it_open_goes_on_with_it(tb: Workspace, empty: Path) -> None:
    before = empty.stat()
    tb.save()
    with client(empty) as other:
        assert other("SELECT name FROM sqlite_schema") == "[]"
        with tb.recording("agent"):
            sql(empty, MADE)
        assert other("SELECT b FROM t") == "[('agent',)]"
        assert tb.undo().verdict == "clean"
        after = empty.stat()
        assert (after.st_size, after.st_ino, after.st_mode) == (0, before.st_ino, before.st_mode)
        assert after.st_mtime_ns == before.st_mtime_ns
        assert other("SELECT name FROM sqlite_schema") == "[]"
        assert tb.redo().verdict == "clean"
        assert empty.stat().st_ino == before.st_ino
        assert other("SELECT b FROM t") == "[('agent',)]"
        assert tb.undo().verdict == "clean"
        other("CREATE TABLE mine (a)")
        other("INSERT INTO mine VALUES ('human')")
    assert ask(empty, "SELECT * FROM mine") == [("human",)]


def test_in_wal_mode_with_nobody_else(tb: Workspace, empty: Path) -> None:
    before = empty.stat()
    tb.save()
    with tb.recording("agent"):
        sql(empty, f"PRAGMA journal_mode = wal; {MADE}")
    made = picture(empty)
    assert tb.undo().verdict == "clean"
    assert (empty.stat().st_size, empty.stat().st_ino) == (0, before.st_ino)
    assert [path.name for path in empty.parent.iterdir()] == ["state.db"]
    assert tb.redo().verdict == "clean"
    assert picture(empty) == made
    assert empty.stat().st_ino == before.st_ino


def test_in_wal_mode_while_another_process_has_it_open(tb: Workspace, empty: Path) -> None:
    """SQLite does not let it go to no bytes then: it has no tables any more, and the report says the rest."""
    tb.save()
    with tb.recording("agent"):
        sql(empty, f"PRAGMA journal_mode = wal; {MADE}")
        (empty.parent / "more.txt").write_text("agent's")
    inode = empty.stat().st_ino
    with client(empty) as other:
        assert other("SELECT b FROM t") == "[('agent',)]"
        with pytest.raises(RollbackIncomplete) as told:
            tb.undo()
        items = {(item.resource, item.target.name): item for item in told.value.report.items}
        assert not items["sqlite", "state.db"].verified
        assert "empty database" in items["sqlite", "state.db"].why
        assert not items["files", "state.db"].verified
        assert items["files", "more.txt"].did == "removed"
        assert empty.stat().st_ino == inode
        assert other("SELECT name FROM sqlite_schema") == "[]"
        other("CREATE TABLE mine (a)")
        other("INSERT INTO mine VALUES ('human')")
    assert ask(empty, "SELECT * FROM mine") == [("human",)]


@pytest.mark.parametrize("thing", ["text", "folder"])
def test_something_else_than_an_empty_file(tb: Workspace, root: Path, thing: str) -> None:
    path = root / "state.db"
    if thing == "text":
        path.write_text("a human's notes")
    else:
        path.mkdir()
    tb.save()
    with tb.recording("agent"):
        path.unlink() if thing == "text" else path.rmdir()
        sql(path, MADE)
    made = picture(path)
    assert tb.undo().verdict == "clean"
    assert path.is_dir() if thing == "folder" else path.read_text() == "a human's notes"
    assert tb.redo().verdict == "clean"
    assert picture(path) == made


def test_somebody_writes_to_it_in_the_last_moment(tb: Workspace, empty: Path) -> None:
    tb.save()
    with tb.recording("agent"):
        sql(empty, MADE)
    late = crash.at(writing.EMPTYING, lambda: sql(empty, "INSERT INTO t VALUES (2, 'human')"))
    with late, pytest.raises(RollbackIncomplete):
        tb.undo()
    assert ask(empty, "SELECT b FROM t") == [("agent",), ("human",)]
