"""A database in a run: one transaction for a step, taken back with the run, and never applied twice."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import takeback
from takeback.core.lifecycle import Life
from takeback.errors import ConflictError, UsageError
from takeback.testing import forks as kill
from takeback.workspace.opening import open_workspace
from tests.runs.scene import Scene
from tests.world.settings import write

COUNT = "SELECT count(*) FROM orders"


@pytest.fixture
def app(scene: Scene) -> Path:
    return made(scene.root / "app.db")


def made(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, text)")
        db.commit()
    return path


def ask(path: Path, question: str = "SELECT * FROM orders") -> list[Any]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(question).fetchall()


def test_it_lasts_from_the_end_of_its_step(scene: Scene, app: Path) -> None:
    with scene.tb.run("work") as run:
        with run.step("one"):
            with run.database("app.db") as db:
                db.execute("INSERT INTO orders VALUES (1, 'a')")
            assert ask(app) == []
            (scene.root / "beside").write_text("a file of the step")
            with run.database("app.db") as db:
                assert db.execute(COUNT).get == 1
                db.execute("INSERT INTO orders VALUES (2, 'b')")
        assert ask(app) == [(1, "a"), (2, "b")]
    commit = next(action for action in scene.tb.log() if action.name == "commit to app.db")  # type: ignore[union-attr]
    assert [c.target.name for c in commit.changes if c.before != c.after] == ["app.db"]  # type: ignore[union-attr]
    report = scene.tb.undo(run.id)
    assert "app.db (2 rows of orders)" in str(report)
    assert (ask(app), scene.read("beside")) == ([], None)
    assert scene.tb.redo().verdict == "clean"
    assert len(ask(app)) == 2


def test_a_commit_is_taken_back_alone(scene: Scene, app: Path) -> None:
    """It is inside of its step, so the step is not another that may have written the same."""
    with scene.tb.run("work") as run, run.step("one"):
        (scene.root / "beside").write_text("a file of the step")
        with run.database("app.db") as db:
            db.execute("INSERT INTO orders VALUES (1, 'a')")
    (commit,) = [a for a in scene.tb.history.actions.values() if a.name == "commit to app.db"]
    assert not any(change.shared_with or change.in_doubt for change in commit.changes)
    assert scene.tb.undo(commit.id).verdict == "clean"
    assert (ask(app), scene.read("beside")) == ([], "a file of the step")


def test_an_error_in_the_step_aborts_it(scene: Scene, app: Path) -> None:
    with pytest.raises(ZeroDivisionError), scene.tb.run("work") as run:
        with run.step("one"), run.database("app.db") as db:
            db.execute("INSERT INTO orders VALUES (1, 'a')")
        with run.step("two"):
            with run.database("app.db") as db:
                db.execute("INSERT INTO orders VALUES (2, 'b'); CREATE TABLE more (a)")
            assert 1 / 0
    assert ask(app) == []
    assert ask(app, "SELECT name FROM sqlite_master") == [("orders",)]
    assert run.report is not None and run.report.verdict == "clean"


def test_an_error_in_the_block_aborts_it_at_once(scene: Scene, app: Path) -> None:
    with scene.tb.run("work") as run:
        with pytest.raises(ZeroDivisionError), run.database("app.db") as db:
            db.execute("INSERT INTO orders VALUES (1, 'a')")
            assert 1 / 0
        assert ask(app) == []
        with run.database("app.db") as db:
            db.execute("INSERT INTO orders VALUES (2, 'b')")
        assert ask(app) == [(2, "b")]


def test_an_error_that_stays_in_the_step_does_not_lose_half_of_it(scene: Scene, app: Path) -> None:
    """The first block's rows went with the second's: the step cannot end as if they were there."""
    with pytest.raises(ConflictError, match="was aborted"), scene.tb.run("work") as run, run.step("one"):
        with run.database("app.db") as db:
            db.execute("INSERT INTO orders VALUES (1, 'a')")
        with pytest.raises(ZeroDivisionError), run.database("app.db") as db:
            assert 1 / 0
    assert ask(app) == []


def test_one_outside_the_workspace(scene: Scene, tmp_path: Path) -> None:
    path = made(tmp_path / "elsewhere.db")
    checkpoint = scene.tb.save()
    with scene.tb.run("work") as run, run.step("one"), run.database(str(path)) as db:
        db.execute("INSERT INTO orders VALUES (1, 'a')")
    assert ask(path) == [(1, "a")]
    # A checkpoint from before it was looked after says nothing of it.
    assert scene.tb.restore(checkpoint).verdict == "nothing"
    assert ask(path) == [(1, "a")]
    assert scene.tb.undo(run.id).verdict == "clean"
    assert ask(path) == []
    # Another process looks after it, too.
    with open_workspace(scene.root, home=scene.home, watching=False) as other:
        with closing(sqlite3.connect(path)) as db:
            db.execute("INSERT INTO orders VALUES (7, 'drift')")
            db.commit()
        (change,) = [c for c in other.drift() if c.target.resource == "sqlite"]
        assert change.target.name == str(path)


def test_one_that_is_excluded(scene: Scene) -> None:
    """Whatever else is left out: what a run writes to, by its name, is taken back with it."""
    write(scene.root, '[files]\nexclude = ["cache/"]\n')
    (scene.root / "cache").mkdir()
    path = made(scene.root / "cache" / "app.db")
    with closing(sqlite3.connect(path)) as db:
        db.execute("INSERT INTO orders VALUES (1, 'a')")
        db.commit()
    with open_workspace(scene.root, home=scene.home, watching=False) as tb:
        with pytest.raises(ZeroDivisionError), tb.run("work") as run:
            with run.step("one"), run.database("cache/app.db") as db:
                db.execute("DELETE FROM orders")
            assert ask(path) == []
            assert 1 / 0
        assert run.report is not None and run.report.verdict == "clean"
        assert ask(path) == [(1, "a")]


def test_a_new_database_goes_again(scene: Scene) -> None:
    with pytest.raises(ZeroDivisionError), scene.tb.run("work") as run:
        with run.step("one"), run.database("new.db") as db:
            db.execute("CREATE TABLE t (a)")
        assert (scene.root / "new.db").exists()
        assert 1 / 0
    assert sorted(path.name for path in scene.root.iterdir()) == ["plan"]
    with scene.tb.run("nothing") as run, run.database("new.db"):
        pass
    assert sorted(path.name for path in scene.root.iterdir()) == ["plan"]


def test_asynchronously(scene: Scene, app: Path) -> None:
    async def work(*, fails: bool) -> None:
        async with scene.tb.run("work") as run, run.step("one"):
            async with run.database("app.db") as db:
                db.execute("INSERT INTO orders VALUES (1, 'a')")
            assert ask(app) == []
            if fails:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(work(fails=True))
    assert ask(app) == []
    asyncio.run(work(fails=False))
    assert ask(app) == [(1, "a")]


def test_what_is_refused(scene: Scene, app: Path) -> None:
    @takeback.action(effect="transactional")
    def write() -> None:
        raise AssertionError

    (scene.root / "folder").mkdir()
    with scene.tb.run("work") as run:
        with pytest.raises(UsageError, match="is not a file"), run.database("folder"):
            raise AssertionError
        with pytest.raises(UsageError, match="is not a SQLite database"), run.database("plan"):
            raise AssertionError
        with pytest.raises(UsageError, match="there is no folder"), run.database("nowhere/app.db"):
            raise AssertionError
        with pytest.raises(UsageError, match="mysql://") as caught, run.database("mysql://me:secret@host/db"):
            raise AssertionError
        assert "secret" not in str(caught.value)
        with closing(sqlite3.connect(app)) as mine:
            mine.execute(COUNT)
            with (
                pytest.raises(UsageError, match=r"already has .*app\.db open through another connection"),
                run.database("app.db"),
            ):
                raise AssertionError
        with pytest.raises(UsageError, match=r"not called\n.*run\.database"):
            run.call(write)
        with pytest.raises(UsageError, match="ended inside the block"), run.database("app.db") as db:
            db.execute("COMMIT")


def program(root: Path, home: Path) -> None:
    """Two steps that write; the second one and the end are not reached by an attempt that is killed."""
    with (
        open_workspace(root, home=home, watching=False) as tb,
        tb.run("work", key="once") as run,
    ):
        for name, value in (("one", 1), ("two", 2)):
            with run.step(name) as step:
                if not step.done:
                    with run.database("app.db") as db:
                        db.execute("INSERT INTO orders (text) VALUES (?)", (str(value),))
        with run.database("app.db") as db:
            db.execute("INSERT INTO orders (text) VALUES ('outside of steps')")


WANTED = [(1, "1"), (2, "2"), (3, "outside of steps")]
PLACES = ["sqlite-committing", "database-committed", "database-recorded", "action-ending", "action-ended"]


def after_kill(scene: Scene, app: Path, place: int | str, between: Callable[[], None] | None = None) -> None:
    errors = scene.home.parent / "errors"
    assert kill.killed_at(place, program, scene.root, scene.home, errors=errors), place
    if between:
        between()
    code = kill.run(program, scene.root, scene.home, errors=errors)
    assert code == 0, errors.read_text()
    scene.tb.parts.ledger.refresh()


@pytest.mark.parametrize("place", PLACES)
def test_what_was_committed_is_not_written_twice(scene: Scene, app: Path, place: str) -> None:
    after_kill(scene, app, place)
    assert ask(app) == WANTED
    (run,) = scene.tb.history.runs.values()
    assert run.life is Life.DONE
    assert scene.tb.undo(run.id).verdict == "clean"
    assert ask(app) == []


def test_a_humans_row_stays_when_an_attempt_is_taken_back(scene: Scene, app: Path) -> None:
    def human() -> None:
        with closing(sqlite3.connect(app)) as db:
            db.execute("INSERT INTO orders VALUES (100, 'human')")
            db.commit()

    after_kill(scene, app, "database-recorded", human)
    assert (100, "human") in ask(app)
    assert sorted(text for _, text in ask(app)) == ["1", "2", "human", "outside of steps"]


def test_killed_in_the_moment_of_the_commit(scene: Scene, app: Path) -> None:
    """No sign of life is later than the commit: it is known to be there, but not whose it is."""
    errors = scene.home.parent / "errors"
    assert kill.killed_at("sqlite-committed", program, scene.root, scene.home, errors=errors)
    code = kill.run(program, scene.root, scene.home, errors=errors)
    assert code in (0, ConflictError.exit_code), errors.read_text()
    assert ask(app) == (WANTED if code == 0 else [(1, "1")])


def test_where_nobody_can_tell_it_is_not_written_again(scene: Scene, app: Path) -> None:
    """Killed before the commit was recorded, and a human wrote before anybody looked: that is for a human."""
    errors = scene.home.parent / "errors"
    assert kill.killed_at("database-committed", program, scene.root, scene.home, errors=errors)
    with closing(sqlite3.connect(app)) as db:
        db.execute("INSERT INTO orders VALUES (100, 'human')")
        db.commit()
    assert kill.run(program, scene.root, scene.home, errors=errors) == ConflictError.exit_code
    assert "in doubt who changed it" in errors.read_text()
    assert ask(app) == [(1, "1"), (100, "human")]


@pytest.mark.sweep
@pytest.mark.timeout(1800)
def test_killed_at_every_place(scene: Scene, app: Path) -> None:
    """In each case it is written once, or it is said that nobody can tell."""
    errors = scene.home.parent / "errors"
    passed = len(kill.places(program, scene.root, scene.home, errors=errors))
    assert ask(app) == WANTED
    for place in range(1, passed + 1):
        with closing(sqlite3.connect(app)) as db:
            db.execute("DELETE FROM orders")
            db.commit()
        root, home = scene.root, scene.home.parent / f"state-{place}"
        if not kill.killed_at(place, program, root, home, errors=errors):
            continue
        code = kill.run(program, root, home, errors=errors)
        assert ask(app) == WANTED if code == 0 else code in (3, 6), (place, code, errors.read_text())
        assert len(ask(app)) <= len(WANTED)
