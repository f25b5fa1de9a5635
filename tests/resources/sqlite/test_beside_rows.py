"""What belongs to the file of a database and not to its rows: attributes, and other names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from takeback.errors import RollbackIncomplete
from takeback.workspace import Workspace
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
