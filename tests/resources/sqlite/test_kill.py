"""Kill -9 during capture and during restore: the next command finishes the work, and the database is whole."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from takeback.resources.sqlite import reading
from takeback.testing import crash
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace
from tests.crash.points import declared

from .killing import move
from .tool import ask, fill, picture, sql, tool

COMMAND = "tests.resources.sqlite.killing:command"
EVERY = bool(os.environ.get("TAKEBACK_TEST_ALL"))


class Scene:
    """A database, what an agent did to it, and pictures from before and after."""

    def __init__(self, tmp_path: Path, mode: str, what: str) -> None:
        self.root, self.home = tmp_path / "work", tmp_path / "state"
        self.root.mkdir()
        self.path = self.root / "app.db"
        fill(self.path, mode)
        self.empty = self.root / "empty.db"
        self.empty.touch()
        self.before = self.look()
        with self.opened() as tb:
            tb.save()
            with tb.recording("agent"):
                if what == "removed":
                    self.path.unlink()
                elif what == "filled":
                    fill(self.empty, mode)
                elif what == "made":
                    fill(self.root / "new.db", mode)
                else:
                    sql(self.path, "UPDATE customers SET name = hex(randomblob(300)); CREATE TABLE x (a)")
                    sql(self.path, "DELETE FROM orders")
        self.after = self.look()

    def opened(self) -> Workspace:
        return open_workspace(self.root, home=self.home, watching=False)

    def look(self) -> dict[str, Any]:
        databases = [path for path in sorted(self.root.iterdir()) if path.suffix == ".db"]
        return {path.name: picture(path) if path.stat().st_size else None for path in databases}

    def kill(self, point: str, command: str) -> bool:
        given = [COMMAND, str(self.root), str(self.home), command]
        return crash.run(point, 1, given).returncode == crash.KILLED

    def finished(self) -> None:
        """One command later everything is as it was before the agent, and the record knows it."""
        with self.opened() as tb:
            tb.undo()
            while self.look() != self.before:
                assert tb.undo().verdict == "clean"
            assert tb.verify(deep=True) == []
        assert self.look() == self.before
        assert not list(self.home.rglob("sqlite/*"))


CAPTURES = ["sqlite-copying", "sqlite-copied", "sqlite-marked"]


def modes(cases: list[Any]) -> list[Any]:
    """Every case in both modes; by default in turn in one of them."""
    both = [("delete", case) for case in cases], [("wal", case) for case in cases]
    return [*both[0], *both[1]] if EVERY else [both[n % 2][n] for n in range(len(cases))]


@pytest.mark.parametrize("mode, point", modes(CAPTURES))
def test_killed_during_a_capture(tmp_path: Path, mode: str, point: str) -> None:
    scene = Scene(tmp_path, mode, "changed")
    sql(scene.path, "INSERT INTO notes VALUES ('since', 1)")
    now = scene.look()
    assert scene.kill(point, "save")
    assert scene.look() == now
    sql(scene.path, "DELETE FROM notes WHERE text = 'since'")
    scene.finished()


RESTORES = [
    ("sqlite-expected", "changed"),
    ("sqlite-writing", "changed"),
    ("sqlite-written", "changed"),
    ("sqlite-swapped", "changed"),
    ("sqlite-making", "removed"),
    ("sqlite-swapped", "removed"),
    ("sqlite-removing", "made"),
    ("sqlite-swapped", "made"),
    ("sqlite-emptying", "filled"),
    ("sqlite-emptied", "filled"),
    ("sqlite-swapped", "filled"),
]


@pytest.mark.parametrize("mode, case", modes(RESTORES))
def test_killed_during_a_restore(tmp_path: Path, mode: str, case: tuple[str, str]) -> None:
    point, what = case
    scene = Scene(tmp_path, mode, what)
    assert scene.kill(point, "undo")
    assert scene.look() in (scene.before, scene.after)
    scene.finished()


@pytest.mark.parametrize("seed", range(200 if EVERY else 3))
def test_killed_at_any_moment(tmp_path: Path, seed: int) -> None:
    """Not at a named place but in the middle of SQLite's own work."""
    chance = random.Random(seed)
    mode = chance.choice(["delete", "wal", "truncate"])
    scene = Scene(tmp_path, mode, "changed")
    tool(scene.path, "db.execute('INSERT INTO notes VALUES (1, randomblob(4000000))')")
    code = "import sys; from tests.resources.sqlite.killing import command; print(1, flush=True)"
    code += "; command(*sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(scene.root), str(scene.home), "undo"],
        env=crash.child_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        process.wait(chance.uniform(0.05, 0.6))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    process.communicate()
    scene.look()  # sound, wherever it stopped
    tool(scene.path, "db.execute('DELETE FROM notes WHERE length(more) = 4000000')")
    with scene.opened() as tb:
        tb.recover()
        if scene.look()["app.db"]["orders"] != scene.before["app.db"]["orders"]:
            assert tb.undo().verdict == "clean"
    now = scene.look()["app.db"]
    assert now == scene.before["app.db"]


def test_killed_while_rows_are_moved(tmp_path: Path) -> None:
    path, base, goal = (tmp_path / name for name in ("app.db", "base", "goal"))
    fill(path, "delete")
    for image, script in ((goal, "UPDATE orders SET amount = 1"), (base, "INSERT INTO notes VALUES (1, 2)")):
        image.write_bytes(b"")
        assert reading.take(os.fsencode(path), os.fsencode(image)).image is not None
        sql(path, script)
    before = picture(path)
    given = ["tests.resources.sqlite.killing:move", str(path), str(base), str(goal)]
    assert crash.run("sqlite-moving", 1, given).returncode == crash.KILLED
    assert picture(path) == before
    move(str(path), str(base), str(goal))
    assert ask(path, "SELECT max(amount) FROM orders") == [(90.0,)]
    assert ask(path, "SELECT count(*) FROM notes WHERE text = 1") == [(1,)]


def test_every_place_is_known() -> None:
    places = {name for name in declared() if name.startswith("sqlite-")}
    tried = {*CAPTURES, *(point for point, _ in RESTORES)}
    # The first three in tests/runs/test_database.py and above, the last in test_damaged.py.
    elsewhere = {"sqlite-committing", "sqlite-committed", "sqlite-moving", "sqlite-replaced"}
    assert places == tried | elsewhere
