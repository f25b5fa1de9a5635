"""What belongs to the file of a database and not to its rows: attributes, and other names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from takeback.errors import ConflictError, RollbackIncomplete
from takeback.resources.sqlite import writing
from takeback.resources.sqlite.resource import SWAPPED
from takeback.testing import crash
from takeback.workspace.workspace import Workspace
from tests.world.picture import differences
from tests.world.picture import picture as witness

from .tool import fill, sql


def _remade(app: Path) -> None:
    copy = app.with_name("copy")
    shutil.copyfile(app, copy)
    copy.rename(app)


def _moved(app: Path) -> None:
    app.rename(app.with_name("old.db"))
    app.write_text("text")


DEEDS: dict[str, Callable[[Path], object]] = {
    "removed": Path.unlink,
    "moved": _moved,
    "remade": _remade,
    "written": lambda app: sql(app, "DELETE FROM notes"),
    "attribute": lambda app: os.removexattr(app, "user.note"),
    "others": lambda app: os.setxattr(app, "user.other", b"agent"),
}


@pytest.mark.parametrize("deed", DEEDS)
def test_attributes_come_back(tb: Workspace, root: Path, deed: str) -> None:
    app = root / "app.db"
    fill(app, "delete")
    os.setxattr(app, "user.note", b"human")
    before = witness(bytes(root))
    tb.save()
    with tb.recording("agent"):
        DEEDS[deed](app)
    after = witness(bytes(root))
    for _ in range(2):
        assert tb.undo().verdict == "clean"
        assert differences(before, witness(bytes(root))) == []
        assert tb.redo().verdict == "clean"
        assert differences(after, witness(bytes(root))) == []


@pytest.mark.parametrize("names", ["one", "both"])
def test_a_hard_link_that_was_removed(tb: Workspace, root: Path, names: str) -> None:
    fill(root / "a.db", "delete")
    (root / "b.db").hardlink_to(root / "a.db")
    before = witness(bytes(root))
    tb.save()
    with tb.recording("agent"):
        (root / "b.db").unlink()
        if names == "both":
            (root / "a.db").unlink()
    assert tb.undo().verdict == "clean"
    assert differences(before, witness(bytes(root))) == []


def test_a_hard_link_that_was_split_is_said(tb: Workspace, root: Path) -> None:
    fill(root / "a.db", "delete")
    (root / "b.db").hardlink_to(root / "a.db")
    tb.save()
    with tb.recording("agent"):
        _remade(root / "a.db")
        sql(root / "a.db", "DELETE FROM notes")
    with pytest.raises(RollbackIncomplete) as told:
        tb.undo()
    (item,) = [i for i in told.value.report.items if i.target.name == "a.db"]
    assert "hard link" in item.why and not item.verified


@pytest.mark.parametrize("text", ["", "a human's text"])
def test_a_hard_link_to_a_humans_database_in_the_place_of_a_file(
    tb: Workspace, root: Path, text: str
) -> None:
    """The file that comes back is made anew: emptying the database would empty the human's, too."""
    app, theirs = root / "app.db", root / "theirs.db"
    app.write_text(text)
    fill(theirs, "delete")
    before = witness(bytes(root))
    tb.save()
    with tb.recording("agent"):
        app.unlink()
        app.hardlink_to(theirs)
    assert tb.undo().verdict == "clean"
    assert differences(before, witness(bytes(root))) == []


def test_a_hard_link_to_a_humans_database_in_the_place_of_another(tb: Workspace, root: Path) -> None:
    app, theirs = root / "app.db", root / "theirs.db"
    fill(theirs, "delete")
    sql(app, "CREATE TABLE t (a)")
    tb.save()
    with tb.recording("agent"):
        app.unlink()
        app.hardlink_to(theirs)
    after = witness(bytes(root))
    with pytest.raises(ConflictError) as told:
        tb.undo()
    assert "theirs.db" in str(told.value)
    assert differences(after, witness(bytes(root))) == []


def test_a_hard_link_that_an_agent_made_and_wrote_through(tb: Workspace, root: Path) -> None:
    fill(root / "a.db", "delete")
    before = witness(bytes(root))
    tb.save()
    with tb.recording("agent"):
        (root / "b.db").hardlink_to(root / "a.db")
        sql(root / "b.db", "DELETE FROM notes")
    assert tb.undo().verdict == "clean"
    assert differences(before, witness(bytes(root))) == []


def test_hard_links_that_were_moved_and_removed(tb: Workspace, root: Path) -> None:
    fill(root / "a.db", "wal")
    (root / "b.db").hardlink_to(root / "a.db")
    before = witness(bytes(root))
    tb.save()
    with tb.recording("agent"):
        (root / "a.db").rename(root / "old.db")
        (root / "a.db").write_text("text")
        (root / "b.db").unlink()
    after = witness(bytes(root))
    for _ in range(2):
        assert tb.undo().verdict == "clean"
        assert differences(before, witness(bytes(root))) == []
        assert tb.redo().verdict == "clean"
        assert differences(after, witness(bytes(root))) == []


def _cut_short() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("deed", ["removed", "written"])
@pytest.mark.parametrize("at", [writing.WRITTEN, writing.MAKING, SWAPPED])
def test_an_undo_cut_short_before_the_attributes_is_finished(
    tb: Workspace, root: Path, deed: str, at: str
) -> None:
    app = root / "app.db"
    fill(app, "delete")
    os.setxattr(app, "user.note", b"human")
    before = witness(bytes(root))
    tb.save()
    with tb.recording("agent"):
        DEEDS[deed](app)
        if deed == "written":
            os.removexattr(app, "user.note")
            app.chmod(0o600)
    with suppress(KeyboardInterrupt), crash.at(at, _cut_short):
        tb.undo()
    tb.undo()
    assert differences(before, witness(bytes(root))) == []
