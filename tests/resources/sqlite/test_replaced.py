"""Something that is no database takes the place of one, or of what SQLite keeps beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from takeback.resources.sqlite import reading
from takeback.testing import crash
from takeback.workspace.workspace import Workspace

from .tool import fill, picture


@pytest.fixture
def app(root: Path) -> Path:
    fill(root / "app.db", "delete")
    return root / "app.db"


def stated(tb: Workspace) -> list[str]:
    return [line for mark in tb.save().taken.marks for line in mark.stated]


def test_by_a_link_to_where_it_is_now(tb: Workspace, app: Path, tmp_path: Path) -> None:
    before, out = picture(app), tmp_path / "out.db"
    tb.save()
    with crash.at(reading.COPIED, lambda: None) as passed, tb.recording("agent"):
        before_it = passed[reading.COPIED]  # what has changed a moment ago is read once more
        app.rename(out)
        app.symlink_to("../out.db")
    # What is behind the link is not read.
    assert passed[reading.COPIED] == before_it
    changes = tb.log()[-1].changes  # type: ignore[union-attr]
    assert {c.target.resource for c in changes} == {"sqlite", "files"}
    assert tb.undo().verdict == "clean"
    assert not app.is_symlink()
    assert picture(app) == picture(out) == before
    assert tb.redo().verdict == "clean"
    assert app.is_symlink()
    assert picture(out) == before


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_by_a_folder(tb: Workspace, root: Path, mode: str) -> None:
    app = root / "app.db"
    fill(app, mode)
    before = picture(app)
    tb.save()
    with tb.recording("agent"):
        app.unlink()
        app.mkdir()
        (app / "file").write_text("in it")
    assert stated(tb) == []
    assert tb.undo().verdict == "clean"
    assert picture(app) == before


@pytest.mark.parametrize("mode", ["delete", "wal"])
@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
def test_a_folder_where_its_log_would_be(tb: Workspace, root: Path, mode: str, suffix: str) -> None:
    app = root / "app.db"
    fill(app, mode)
    before = picture(app)
    tb.save()
    with tb.recording("agent"):
        (root / f"app.db{suffix}").mkdir()
    assert stated(tb) == []
    assert tb.undo().verdict == "clean"
    assert not (root / f"app.db{suffix}").exists()
    assert picture(app) == before


def test_a_link_where_its_log_would_be_is_not_read(tb: Workspace, root: Path, tmp_path: Path) -> None:
    app = root / "app.db"
    fill(app, "wal")
    before = picture(app)
    tb.save()
    (tmp_path / "out").write_bytes(b"of somebody else")
    with tb.recording("agent"):
        (root / "app.db-wal").symlink_to("../out")
    assert stated(tb) == []
    assert tb.undo().verdict == "clean"
    assert picture(app) == before
    assert (tmp_path / "out").read_bytes() == b"of somebody else"
