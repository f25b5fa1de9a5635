"""A database is moved away, and something else gets its place: taking that back never leaves it nowhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from takeback.errors import ConflictError, RollbackIncomplete
from takeback.resources.sqlite import writing
from takeback.testing import crash
from takeback.workspace.workspace import Workspace

from .tool import fill, picture, sql


def _another_database(place: Path) -> None:
    sql(place, "CREATE TABLE other (a); INSERT INTO other VALUES (1)")


def _a_folder(place: Path) -> None:
    place.mkdir()
    (place / "in it").write_text("x")


def _a_large_file(place: Path) -> None:
    place.write_bytes(b"x" * 8192)


def _nothing(place: Path) -> None:
    """Its place stays empty."""


THINGS: dict[str, Callable[[Path], object]] = {
    "nothing": _nothing,
    "text": lambda place: place.write_text("no database"),
    "large": _a_large_file,
    "empty": Path.touch,
    "folder": _a_folder,
    "link": lambda place: place.symlink_to("old.db"),
    "copy": lambda place: shutil.copy(place.with_name("old.db"), place),
    "hard link": lambda place: place.hardlink_to(place.with_name("old.db")),
    "database": _another_database,
}


@pytest.mark.parametrize("mode", ["delete", "wal"])
@pytest.mark.parametrize("thing", THINGS)
def test_something_else_gets_its_place(tb: Workspace, root: Path, mode: str, thing: str) -> None:
    app, old = root / "x.db", root / "old.db"
    fill(app, mode)
    before = picture(app)
    tb.save()
    with tb.recording("agent"):
        app.rename(old)
        THINGS[thing](app)
    there = sorted(path.name for path in root.iterdir())
    assert tb.undo().verdict == "clean"
    assert picture(app) == before
    assert not old.exists()
    assert tb.redo().verdict == "clean"
    assert sorted(path.name for path in root.iterdir()) == there
    assert picture(old) == before


HUMANS = [thing for thing in THINGS if thing not in ("nothing", "database", "copy", "hard link")]


@pytest.mark.parametrize("thing", HUMANS)
def test_a_human_puts_something_else_in_its_place(tb: Workspace, root: Path, thing: str) -> None:
    app, old = root / "x.db", root / "old.db"
    fill(app, "delete")
    before = picture(app)
    tb.save()
    with tb.recording("agent"):
        app.rename(old)
    THINGS[thing](app)
    theirs = app.lstat()
    with pytest.raises(ConflictError, match=r"x\.db: something else is in its place"):
        tb.undo()
    assert picture(old) == before
    # Whoever wants to keep what is there keeps the database, too, where it is.
    report = tb.undo(on_conflict="keep")
    assert {item.target.name: item.did for item in report.items if item.resource == "sqlite"} == {
        "x.db": "kept",
        "old.db": "kept",
    }
    assert picture(old) == before
    assert app.lstat() == theirs


def test_somebody_takes_its_place_in_the_last_moment(tb: Workspace, root: Path) -> None:
    app, old = root / "x.db", root / "old.db"
    fill(app, "wal")
    before = picture(app)
    tb.save()
    with tb.recording("agent"):
        app.rename(old)
    with (
        crash.at(writing.MAKING, lambda: app.write_text("theirs")),
        pytest.raises(RollbackIncomplete) as told,
    ):
        tb.undo()
    assert {item.target.name: item.did for item in told.value.report.items if item.resource == "sqlite"} == {
        "x.db": "failed",
        "old.db": "kept",
    }
    assert picture(old) == before
    assert app.read_text() == "theirs"
