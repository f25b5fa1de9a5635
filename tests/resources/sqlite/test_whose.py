"""Whose a path is: a database's or a file's, decided by what is there."""

from __future__ import annotations

import os
import shutil
import stat
import time
from contextlib import suppress
from pathlib import Path

import pytest

from takeback.errors import ConflictError, RollbackIncomplete
from takeback.resources.sqlite import reading
from takeback.testing import crash
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace

from .tool import ask, fill, picture, sql, tool


@pytest.fixture(params=["delete", "wal"])
def app(root: Path, request: pytest.FixtureRequest) -> Path:
    path = root / "app.db"
    fill(path, request.param)
    path.chmod(0o640)
    os.utime(path, (1_600_000_000, 1_600_000_000))
    return path


def targets(tb: Workspace) -> set[tuple[str, str]]:
    """What the last action changed, but for the times of folders."""
    changes = [action for action in tb.log() if getattr(action, "is_tool", False)][-1].changes  # type: ignore[union-attr]
    return {(c.target.resource, c.target.name) for c in changes if c.before != c.after}


def taken_back(tb: Workspace, path: Path, before: dict[str, object], found: os.stat_result) -> None:
    assert tb.undo().verdict == "clean"
    assert picture(path) == before
    now = path.stat()
    assert (now.st_mode, now.st_mtime_ns) == (found.st_mode, found.st_mtime_ns)
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["app.db"]
    assert tb.verify(deep=True) == []


def test_a_removed_database_comes_back_byte_for_byte(tb: Workspace, app: Path) -> None:
    tb.save()
    before, data, found = picture(app), app.read_bytes(), app.stat()
    os.utime(app, ns=(found.st_atime_ns, found.st_mtime_ns))
    with tb.recording("agent"):
        app.unlink()
    assert targets(tb) == {("sqlite", "app.db")}
    assert tb.undo().verdict == "clean"
    assert app.read_bytes() == data
    assert stat.S_IMODE(app.stat().st_mode) == 0o640
    assert picture(app) == before


def test_one_that_an_agent_made_goes_again(tb: Workspace, root: Path) -> None:
    tb.save()
    with tb.recording("agent"):
        (root / "sub").mkdir()
        fill(root / "sub" / "new.db", "wal")
    assert tb.undo().verdict == "clean"
    assert list(root.iterdir()) == []
    assert tb.redo().verdict == "clean"
    assert ask(root / "sub" / "new.db", "SELECT count(*) FROM orders") == [(60,)]


def test_moved_away(tb: Workspace, app: Path) -> None:
    before, found = picture(app), app.stat()
    with tb.recording("agent"):
        (app.parent / "far").mkdir()
        app.rename(app.parent / "far" / "other.db")
    assert targets(tb) == {("sqlite", "app.db"), ("sqlite", "far/other.db"), ("files", "far")}
    taken_back(tb, app, before, found)


def test_overwritten_with_text_and_back(tb: Workspace, app: Path) -> None:
    before, found = picture(app), app.stat()
    with tb.recording("agent"):
        app.write_text("not a database any more")
    assert targets(tb) == {("sqlite", "app.db"), ("files", "app.db")}
    taken_back(tb, app, before, found)
    assert tb.redo().verdict == "clean"
    assert app.read_text() == "not a database any more"


def test_a_text_file_that_becomes_a_database(tb: Workspace, root: Path) -> None:
    path = root / "app.db"
    path.write_text("text")
    with tb.recording("agent"):
        path.unlink()
        fill(path, "delete")
    assert tb.undo().verdict == "clean"
    assert path.read_text() == "text"
    assert tb.redo().verdict == "clean"
    assert ask(path, "SELECT count(*) FROM orders") == [(60,)]


def test_emptied(tb: Workspace, app: Path) -> None:
    before, found = picture(app), app.stat()
    with tb.recording("agent"):
        os.truncate(app, 0)
    taken_back(tb, app, before, found)


def with_a_log(root: Path) -> Path:
    """A database whose last change stands in the log beside it alone."""
    path, live = root / "app.db", root.parent / "live.db"
    fill(live, "wal")
    tool(live, "db.execute('DELETE FROM orders'); db.commit(); import os; os._exit(0)")
    for name in ("", "-wal"):
        shutil.copy(f"{live}{name}", f"{path}{name}")
    return path


def test_only_the_log_is_removed(tb: Workspace, root: Path) -> None:
    """What was committed and stood in the log alone is lost with it, and comes back."""
    path = with_a_log(root)
    tb.save()
    with tb.recording("agent"):
        (root / "app.db-wal").unlink()
    assert targets(tb) == {("sqlite", "app.db")}
    assert tb.undo().verdict == "clean"
    assert ask(path, "SELECT count(*) FROM orders") == [(0,)]


def test_only_the_database_is_removed_beside_its_log(tb: Workspace, root: Path) -> None:
    """A log that is left over is never read into the database that comes back."""
    path = with_a_log(root)
    tb.save()
    with tb.recording("agent"):
        path.unlink()
    assert targets(tb) == {("sqlite", "app.db"), ("files", "app.db-wal")}
    assert tb.undo().verdict == "clean"
    assert ask(path, "SELECT count(*) FROM orders") == [(0,)]
    assert ask(path, "PRAGMA integrity_check") == [("ok",)]


def test_a_log_of_somebody_else_stands_in_the_way(tb: Workspace, app: Path) -> None:
    tb.save()
    with tb.recording("agent"):
        app.unlink()
    (app.parent / "app.db-journal").write_bytes(b"of another one")
    with pytest.raises(RollbackIncomplete) as caught:
        tb.undo()
    (item,) = [item for item in caught.value.report.items if item.resource == "sqlite"]
    assert (item.did, item.verified) == ("failed", False)
    assert "app.db-journal" in item.why
    assert (app.parent / "app.db-journal").read_bytes() == b"of another one"
    (app.parent / "app.db-journal").unlink()
    assert tb.undo().verdict == "clean"
    assert ask(app, "SELECT count(*) FROM orders") == [(60,)]


def test_its_mode_alone(tb: Workspace, app: Path) -> None:
    before, found = picture(app), app.stat()
    with tb.recording("agent"):
        app.chmod(0o666)
    assert targets(tb) == {("sqlite", "app.db")}
    taken_back(tb, app, before, found)


def test_its_journal_mode_alone(tb: Workspace, root: Path) -> None:
    path = root / "app.db"
    fill(path, "delete")
    with tb.recording("agent"):
        sql(path, "PRAGMA journal_mode = wal")
    assert tb.undo().verdict == "clean"
    assert ask(path, "PRAGMA journal_mode") == [("delete",)]
    assert tb.redo().verdict == "clean"
    assert ask(path, "PRAGMA journal_mode") == [("wal",)]


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_pages_of_another_size(tb: Workspace, root: Path, mode: str) -> None:
    path = root / "app.db"
    fill(path, mode)
    before = picture(path)
    with tb.recording("agent"):
        sql(
            path,
            "PRAGMA journal_mode = delete; PRAGMA page_size = 8192; VACUUM; PRAGMA journal_mode = " + mode,
        )
    assert ask(path, "PRAGMA page_size") == [(8192,)]
    assert tb.undo().verdict == "clean"
    assert picture(path) == before


def test_a_restored_checkpoint_has_its_databases(tb: Workspace, app: Path) -> None:
    checkpoint, before = tb.save(), picture(app)
    sql(app, "DELETE FROM orders")
    fill(app.parent / "more.db", "wal")
    now = picture(app)
    assert tb.restore(checkpoint).verdict == "clean"
    assert picture(app) == before
    assert not (app.parent / "more.db").exists()
    assert tb.redo().verdict == "clean"
    assert picture(app) == now
    assert ask(app.parent / "more.db", "SELECT count(*) FROM orders") == [(60,)]


def test_another_process_goes_on_where_this_one_was(tmp_path: Path, root: Path) -> None:
    """What is known is kept for the next process; where that is lost, it is found again."""
    fill(root / "app.db", "delete")
    (root / "text").write_text("text")
    home = tmp_path / "state"
    for lost in ("", "sqlite.index", "files.index"):
        with open_workspace(root, home=home, watching=False) as tb:
            tb.save()
            sql(root / "app.db", "INSERT INTO notes VALUES (1, 2)")
        for file in home.rglob(lost) if lost else ():
            file.unlink()
        with open_workspace(root, home=home, watching=False) as tb:
            (change,) = [change for change in tb.drift() if change.before != change.after]
            assert (change.target.resource, change.target.name) == ("sqlite", "app.db")


def test_an_untouched_database_is_not_opened(tb: Workspace, app: Path) -> None:
    while time.time_ns() - app.stat().st_ctime_ns < 2 * reading.TICK_NS:
        tb.save()
    tb.save()
    with crash.at(reading.COPIED, lambda: None) as passed:
        tb.save()
    assert passed[reading.COPIED] == 0
    sql(app, "DELETE FROM notes")
    with crash.at(reading.COPIED, lambda: None) as passed:
        tb.save()
    assert passed[reading.COPIED] == 1


@pytest.mark.parametrize("did", ["removed", "changed", "made"])
def test_nothing_is_written_through_a_link_out_of_the_workspace(
    tb: Workspace, root: Path, tmp_path: Path, did: str
) -> None:
    """The folder of a database was moved away, and a link leads to where it is now."""
    app, outside = root / "sub" / "app.db", tmp_path / "outside"
    app.parent.mkdir()
    if did != "made":
        fill(app, "delete")
    tb.save()
    with tb.recording("agent"):
        if did == "made":
            fill(app, "delete")
        elif did == "removed":
            app.unlink()
        else:
            sql(app, "update customers set name = 'x'")
    shutil.move(app.parent, outside)
    app.parent.symlink_to(outside)
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in outside.iterdir()}
    folder_ns = outside.stat().st_mtime_ns
    with suppress(ConflictError, RollbackIncomplete):
        tb.undo(on_conflict="overwrite")
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in outside.iterdir()} == before
    assert outside.stat().st_mtime_ns == folder_ns
