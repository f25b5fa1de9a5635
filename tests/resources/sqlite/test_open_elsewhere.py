"""A database is removed by an undo while another program has it open: nothing that it writes later is lost."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from takeback.engine.rollback.report import RollbackReport
from takeback.errors import RollbackIncomplete
from takeback.resources.sqlite import writing
from takeback.testing import crash
from takeback.workspace.workspace import Workspace

from .test_others import CLIENT, started
from .tool import ask, sql

RESCUED = "takeback-rescued-1-app.db"


class Program:
    """Another process with one connection, which it keeps."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def does(self, statement: str) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(statement + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


@contextmanager
def program(path: Path) -> Iterator[Program]:
    process = started(CLIENT, path)
    try:
        yield Program(process)
    finally:
        process.communicate(timeout=60)


def made_by_agent(tb: Workspace, path: Path, mode: str = "wal") -> None:
    tb.save()
    with tb.recording("agent"):
        sql(path, f"PRAGMA journal_mode = {mode}; CREATE TABLE t (a); INSERT INTO t VALUES ('agent')")


def why(report: RollbackReport, name: str) -> str:
    (item,) = [i for i in report.items if i.target.resource == "sqlite" and i.target.name == name]
    assert item.verified
    return item.why


@pytest.mark.parametrize("folder", ["", "data"])
def test_what_it_writes_later_is_kept_and_said(tb: Workspace, root: Path, folder: str) -> None:
    (root / folder).mkdir(exist_ok=True)
    app = root / folder / "app.db"
    made_by_agent(tb, app)
    with program(app) as other:
        assert other.does("SELECT * FROM t") == "[('agent',)]"
        report = tb.undo()
        assert not app.exists()
        assert other.does("INSERT INTO t VALUES ('human')") == "[]"
        assert other.does("SELECT * FROM t") == "[('agent',), ('human',)]"
        assert ask(root / RESCUED, "SELECT * FROM t") == [("agent",), ("human",)]
    assert RESCUED in why(report, str(app.relative_to(root)))
    assert report.verdict == "clean"
    assert ask(root / RESCUED, "SELECT * FROM t") == [("agent",), ("human",)]
    assert ask(root / RESCUED, "PRAGMA integrity_check") == [("ok",)]
    # What was kept is a human's: it stays whatever is done next.
    assert tb.redo().verdict == "clean"
    assert ask(app, "SELECT * FROM t") == [("agent",)]
    assert ask(root / RESCUED, "SELECT * FROM t") == [("agent",), ("human",)]
    assert tb.undo().verdict == "clean"
    assert ask(root / RESCUED, "SELECT * FROM t") == [("agent",), ("human",)]
    assert sorted(path.name for path in root.rglob("*.db*")) == [RESCUED]


def test_one_that_was_moved(tb: Workspace, root: Path) -> None:
    app, old = root / "x.db", root / "app.db"
    sql(app, "PRAGMA journal_mode = wal; CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    tb.save()
    with program(app) as other:
        other.does("SELECT * FROM t")
        with tb.recording("agent"):
            for end in ("", "-wal", "-shm"):
                Path(f"{app}{end}").rename(f"{old}{end}")
        report = tb.undo()
        other.does("INSERT INTO t VALUES (2)")
    assert RESCUED in why(report, "app.db")
    assert ask(app, "SELECT * FROM t") == [(1,)]
    assert ask(root / RESCUED, "SELECT * FROM t") == [(1,), (2,)]


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_one_that_nobody_has_open_is_removed(tb: Workspace, root: Path, mode: str) -> None:
    made_by_agent(tb, root / "app.db", mode)
    assert why(tb.undo(), "app.db") == ""
    assert list(root.iterdir()) == []


def test_without_a_log_sqlite_itself_refuses_what_would_be_lost(tb: Workspace, root: Path) -> None:
    made_by_agent(tb, root / "app.db", "delete")
    with program(root / "app.db") as other:
        other.does("SELECT * FROM t")
        assert why(tb.undo(), "app.db") == ""
        assert other.does("INSERT INTO t VALUES ('human')") == ""
    assert list(root.iterdir()) == []


def _cut_short() -> None:
    raise KeyboardInterrupt


def test_an_undo_that_is_cut_short_there_is_finished(tb: Workspace, root: Path) -> None:
    app = root / "app.db"
    made_by_agent(tb, app)
    with program(app) as other:
        other.does("SELECT * FROM t")
        with crash.at(writing.REMOVING, _cut_short), pytest.raises(KeyboardInterrupt):
            tb.undo()
        assert other.does("INSERT INTO t VALUES ('human')") == "[]"
        with pytest.raises(RollbackIncomplete):
            tb.undo()  # what it wrote meanwhile is in the way
        assert other.does("INSERT INTO t VALUES ('again')") == "[]"
    found = [ask(path, "SELECT * FROM t") for path in root.iterdir() if path.suffix == ".db"]
    assert [("agent",), ("human",), ("again",)] in found
