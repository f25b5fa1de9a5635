"""A workspace that lives on is told what changed; and does not believe it blindly."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from takeback.core.events import Mark
from takeback.resources.files.entry import FileEntry, join
from takeback.resources.files.look import observer, scan
from takeback.resources.files.look.watch import Drained, Watcher
from takeback.system import linux
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace

pytestmark = pytest.mark.skipif(not linux.available(), reason="not on this platform: no inotify")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    for n in range(20):
        (made / f"d{n}").mkdir(parents=True)
        for m in range(10):
            (made / f"d{n}" / f"f{m}").write_text(str(m))
    return made


@pytest.fixture
def tb(root: Path, tmp_path: Path) -> Iterator[Workspace]:
    with open_workspace(root, home=tmp_path / "state") as made:
        yield made


def mark(tb: Workspace) -> Mark:
    (found,) = [mark for mark in tb.save().taken.marks if mark.resource == "files"]
    return found


def entries(tb: Workspace) -> dict[bytes, FileEntry]:
    """All that is known of the tree."""
    found = {}
    for path, folder in tb.parts.files._observer.known.walk():
        found[path] = folder.entry
        found.update({join(path, name): row.entry for name, row in folder.files.items()})
    return found


def test_one_change_costs_no_scan(root: Path, tb: Workspace) -> None:
    assert mark(tb).evidence == "every file read"
    before = scan.stats_taken
    for n in range(5):
        (root / "d7" / "f3").write_text(f"changed {n}")
        (root / f"new{n}").mkdir()
        (root / f"new{n}" / "inside").touch()
        assert mark(tb).evidence == "watcher"
        (action,) = [a for a in tb.history.actions.values() if a.kind == "outside"][n:]
        changed = {str(c.target) for c in action.changes if c.before != c.after}
        assert changed == {"d7/f3", f"new{n}", f"new{n}/inside"}
    assert scan.stats_taken == before


def test_the_tree_that_is_watched_is_the_tree_that_is_scanned(
    root: Path, tb: Workspace, tmp_path: Path
) -> None:
    mark(tb)
    (root / "d1").rename(root / "e1")
    (root / "e1" / "f0").write_text("in the new place")
    (root / "d2" / "f0").unlink()
    (root / "d2" / "f1").chmod(0o600)
    os.link(root / "d3" / "f0", root / "d4" / "link")
    (root / "d5" / "f0").unlink()
    (root / "d5" / "f0").symlink_to("f1")
    watched = mark(tb)
    assert watched.evidence == "watcher"
    with open_workspace(root, home=tmp_path / "another", watching=False) as other:
        mark(other)
        assert entries(other) == entries(tb)


def test_a_restart_scans_once_and_then_watches(root: Path, tmp_path: Path) -> None:
    with open_workspace(root, home=tmp_path / "state") as tb:
        mark(tb)
    (root / "d1" / "f1").write_text("while nobody looked")
    with open_workspace(root, home=tmp_path / "state") as tb:
        assert mark(tb).evidence == "scan"
        assert [a.kind for a in tb.history.actions.values()] == ["outside"]
        assert mark(tb).evidence == "watcher"


def test_an_audit_that_finds_a_miss_ends_the_trust(
    root: Path, tb: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark(tb)
    drain = Watcher.drain

    def forgetful(watcher: Watcher) -> Drained:
        """A kernel that loses events without a word."""
        drained = drain(watcher)
        return drained if drained.lost else Drained({})

    monkeypatch.setattr(Watcher, "drain", forgetful)
    (root / "d1" / "f1").write_text("missed")
    assert mark(tb).evidence == "watcher"
    assert tb.history.actions == {}, "the watcher was to miss this"
    monkeypatch.setattr(observer, "AUDIT_S", -1)
    audited = mark(tb)
    assert audited.evidence == "scan"
    (found,) = tb.history.actions.values()
    assert [str(change.target) for change in found.changes] == ["d1/f1"]
    # From now on nobody asks it any more, and every mark says so.
    monkeypatch.setattr(observer, "AUDIT_S", 300)
    (root / "d2" / "f2").write_text("seen")
    later = mark(tb)
    assert later.evidence == "scan" and "watcher is not used" in " ".join(later.stated)
    assert len(tb.history.actions) == 2


def test_an_audit_that_finds_nothing_goes_on_watching(
    root: Path, tb: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark(tb)
    monkeypatch.setattr(observer, "AUDIT_S", -1)
    (root / "d1" / "f1").write_text("told")
    assert mark(tb).evidence == "scan"
    monkeypatch.setattr(observer, "AUDIT_S", 300)
    (root / "d1" / "f1").write_text("told again")
    last = mark(tb)
    assert last.evidence == "watcher" and last.stated == ()


def test_what_the_watcher_lost_is_found_by_a_scan(
    root: Path, tb: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark(tb)
    drain = Watcher.drain
    lost = ["the kernel's event queue overflowed"]

    def overflowing(watcher: Watcher) -> Drained:
        if lost:
            watcher._lose(lost.pop())
        return drain(watcher)

    monkeypatch.setattr(Watcher, "drain", overflowing)
    (root / "d1" / "f1").write_text("lost")
    assert mark(tb).evidence == "scan"
    assert len(tb.history.actions) == 1
    (root / "d1" / "f1").write_text("told")
    assert mark(tb).evidence == "watcher"
    assert len(tb.history.actions) == 2


def test_a_real_overflow_of_the_queue(root: Path, tb: Workspace) -> None:
    mark(tb)
    with open("/proc/sys/fs/inotify/max_queued_events") as file:
        limit = int(file.read())
    if limit > 20_000:
        pytest.skip("not on this platform: the kernel's queue is too long to fill")
    first, second = (os.open(root / "d1" / name, os.O_WRONLY) for name in ("f1", "f2"))
    for n in range(limit // 2 + 10):
        # Two files by turns, for equal events in a row are counted as one.
        os.pwrite(first, b"%09d" % n, 0)
        os.pwrite(second, b"%09d" % n, 0)
    os.close(first)
    os.close(second)
    assert mark(tb).evidence == "scan"
    (found,) = tb.history.actions.values()
    assert {str(change.target) for change in found.changes} == {"d1/f1", "d1/f2"}
    assert mark(tb).evidence == "watcher"


def test_an_undo_by_another_process_is_seen(root: Path, tb: Workspace, tmp_path: Path) -> None:
    with tb.recording("agent"):
        (root / "d1" / "f1").write_text("agent")
    with open_workspace(root, home=tmp_path / "state", watching=False) as other:
        other.undo()
    assert (root / "d1" / "f1").read_text() == "1"
    assert tb.drift() == []
    tb.redo()
    assert (root / "d1" / "f1").read_text() == "agent"
