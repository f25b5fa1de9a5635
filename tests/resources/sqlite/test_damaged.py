"""A database that was damaged is put back from what is kept of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from takeback.errors import ConflictError, RollbackIncomplete
from takeback.resources.sqlite import damaged
from takeback.system import crash_points
from takeback.testing import crash
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace

from .tool import fill, picture, sql

LOCKED = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_SH, 510, 0x40000002)
print("ready", flush=True)
sys.stdin.read()
"""


def cut(path: Path) -> None:
    os.truncate(path, 4096)


def scribble(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xee" * 3000)


@pytest.fixture(params=["delete", "wal"])
def app(root: Path, request: pytest.FixtureRequest) -> Path:
    fill(root / "app.db", request.param)
    return root / "app.db"


@pytest.mark.parametrize("damage", [cut, scribble])
def test_by_the_agent(tb: Workspace, app: Path, damage: Callable[[Path], None]) -> None:
    before, found = picture(app), app.stat()
    tb.save()
    with tb.recording("agent"):
        damage(app)
    bytes_now = app.read_bytes()
    report = tb.undo()
    assert report.verdict == "clean"
    assert "damaged" in str(report) or "sound" in str(report)
    assert (app.stat().st_mode, app.stat().st_mtime_ns) == (found.st_mode, found.st_mtime_ns)
    assert picture(app) == before
    assert [entry.name for entry in app.parent.iterdir()] == ["app.db"]
    with pytest.raises(ConflictError, match="damaged"):
        tb.redo()
    assert picture(app) == before
    # Nothing is lost: as a file it can be had again.
    app.unlink()
    tb.save()
    assert tb.redo(on_conflict="overwrite").verdict == "clean"
    assert app.read_bytes() == bytes_now


def test_by_somebody_else_later(tb: Workspace, app: Path) -> None:
    before = picture(app)
    tb.save()
    with tb.recording("agent"):
        sql(app, "DELETE FROM orders")
    scribble(app)
    damaged = app.read_bytes()
    with pytest.raises(ConflictError, match="damaged"):
        tb.undo()
    assert app.read_bytes() == damaged
    assert tb.undo(on_conflict="overwrite").verdict == "clean"
    assert picture(app) == before


def test_one_that_was_made_damaged_goes_again(tb: Workspace, root: Path) -> None:
    path = root / "app.db"
    tb.save()
    with tb.recording("agent"):
        fill(path, "delete")
        cut(path)
    assert tb.undo().verdict == "clean"
    assert not path.exists()


def test_not_while_somebody_has_it_locked(tb: Workspace, app: Path) -> None:
    before = picture(app)
    tb.save()
    with tb.recording("agent"):
        cut(app)
    damaged = app.read_bytes()
    holder = subprocess.Popen(
        [sys.executable, "-c", LOCKED, str(app)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"ready\n"
    try:
        with pytest.raises(RollbackIncomplete):
            tb.undo()
        assert app.read_bytes() == damaged
    finally:
        holder.communicate(timeout=60)
    assert tb.undo().verdict == "clean"
    assert picture(app) == before


def test_what_is_written_in_the_last_moment_stays(
    tb: Workspace, app: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has the damaged file open may still write to it, without any lock of SQLite's."""
    tb.save()
    with tb.recording("agent"):
        cut(app)
    reach, mine = crash_points.reach, b"mine" * 1024

    def write_when_replaced(point: str) -> None:
        if point == damaged.REPLACED:
            (old,) = app.parent.glob(".app.db.takeback-old-*")
            old.write_bytes(mine)
        reach(point)

    monkeypatch.setattr(crash_points, "reach", write_when_replaced)
    with pytest.raises(RollbackIncomplete):
        tb.undo()
    assert app.read_bytes() == mine
    assert [path.name for path in app.parent.iterdir() if "takeback" in path.name] == []


def test_killed_when_it_was_replaced(tmp_path: Path) -> None:
    root, home = tmp_path / "work", tmp_path / "state"
    root.mkdir()
    app = root / "app.db"
    fill(app, "delete")
    before = picture(app)
    with open_workspace(root, home=home, watching=False) as tb:
        tb.save()
        with tb.recording("agent"):
            cut(app)
    given = ["tests.resources.sqlite.killing:command", str(root), str(home), "undo"]
    assert crash.run("sqlite-replaced", 1, given).returncode == crash.KILLED
    assert len(list(root.glob(".app.db.takeback-old-*"))) == 1
    with open_workspace(root, home=home, watching=False) as tb:
        tb.recover()
    assert picture(app) == before
    assert [path.name for path in root.iterdir()] == ["app.db"]
