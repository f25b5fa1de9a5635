"""Finding what changed by looking: nothing is missed, in the same tick, by two processes, or with a bad cache."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from takeback.resources.files.entry import key_of
from takeback.resources.files.look import scan
from takeback.resources.files.look.capture import RACY_NS
from takeback.resources.files.tree import cache as tree_cache
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace


def names(tb: Workspace) -> set[str]:
    """What changed since the last record; folders that only hold a changed name are left out."""
    changed = [change for change in tb.drift() if change.before != change.after]
    return {str(change.target) for change in changed} - {"."}


# The same tick


def test_a_write_right_after_a_mark_is_found(root: Path, tb: Workspace) -> None:
    for n in range(50):
        (root / "counter").write_bytes(b"%03d" % n)
        before = tb.parts.files.mark()
        (root / "counter").write_bytes(b"%03d" % (n + 500))
        after = tb.parts.files.mark()
        assert before.state != after.state, n
        assert len(list(tb.parts.files.changes(before, after))) >= 1


def test_a_write_in_the_tick_of_the_mark_is_found(root: Path, tb: Workspace) -> None:
    """Same size, same inode, same times, as coarse clocks give them: only reading again can tell."""
    path = root / "counter"
    path.write_bytes(b"one")
    before = tb.parts.files.mark()
    path.write_bytes(b"two")
    known = tb.parts.files._observer.known
    row = known.files[b"counter"]
    assert row.racy
    known.files[b"counter"] = msgspec.structs.replace(row, key=key_of(path.stat()))
    assert tb.parts.files.mark().state != before.state


def test_an_old_file_is_not_read_again(root: Path, tb: Workspace) -> None:
    path = root / "counter"
    path.write_bytes(b"one")
    wait_until_old(path)
    tb.parts.files.mark()
    assert not tb.parts.files._observer.known.files[b"counter"].racy


def wait_until_old(path: Path) -> None:
    while time.time_ns() - path.stat().st_ctime_ns < 2 * RACY_NS:
        time.sleep(0.005)


def test_a_name_that_comes_right_after_a_mark_is_found(root: Path, tb: Workspace) -> None:
    for n in range(50):
        before = tb.parts.files.mark()
        (root / f"new-{n}").touch()
        assert tb.parts.files.mark().state != before.state, n


def test_a_file_that_came_back_with_its_old_times_is_found(root: Path, tb: Workspace) -> None:
    """`cp -p` and `touch -r` set the mtime; the ctime cannot be set."""
    path = root / "file"
    path.write_text("old")
    os.utime(path, ns=(10**18, 10**18))
    tb.save()
    path.write_text("new")
    os.utime(path, ns=(10**18, 10**18))
    assert names(tb) == {"file"}


# Two processes


def grow(root: Path, random: random.Random) -> None:
    for n in range(120):
        folder = root / "/".join(f"d{random.randrange(4)}" for _ in range(random.randrange(4)))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{n}").write_text(str(n))


def disturb(root: Path, random: random.Random) -> None:
    """Write, make, remove and replace files and whole folders."""
    files = sorted(path for path in root.rglob("f*") if path.is_file())
    for path in random.sample(files, 6):
        if random.random() < 0.5:
            path.unlink()
        else:
            path.write_text("changed")
    folders = sorted(path for path in root.rglob("d*") if path.is_dir())
    for folder in random.sample(folders, min(3, len(folders))):
        if folder.exists():
            shutil.rmtree(folder)
            if random.random() < 0.7:
                folder.mkdir()
    for n in range(4):
        (random.choice([root, *(p for p in root.iterdir() if p.is_dir())]) / f"new{n}").write_text("new")


@pytest.mark.parametrize("seed", range(6))
def test_a_second_process_finds_the_same(
    seed: int, root: Path, tb: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    grow(root, chance)
    tb.save()
    disturb(root, chance)
    known = tb.parts.files._observer.known
    alone = scan.scan(tb.parts.files._observer.place, known)
    monkeypatch.setattr(scan, "PARALLEL_FILES_MIN", 1)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    before = scan.stats_taken
    together = scan.scan(tb.parts.files._observer.place, known)
    assert scan.stats_taken - before < sum(len(folder.files) + 1 for _, folder in known.walk())
    # A folder that is gone may be named by its parent alone, or with all that was in it.
    assert {k: v for k, v in alone.items() if (root / os.fsdecode(k)).is_dir()} == {
        k: v for k, v in together.items() if (root / os.fsdecode(k)).is_dir()
    }


@pytest.mark.parametrize("gone", "abcd")
def test_what_both_processes_say_of_one_folder_is_joined(
    gone: str, root: Path, tb: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One finds that a folder is gone, the other that a file beside it is new."""
    for folder in "abcd":
        (root / folder).mkdir()
        for n in range(10):
            (root / folder / f"f{n}").touch()
    (root / "top").write_text("old")
    tb.save()
    monkeypatch.setattr(scan, "PARALLEL_FILES_MIN", 1)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    shutil.rmtree(root / gone)
    (root / "top").write_text("changed")
    (root / "new").touch()
    assert {gone, "top", "new"} <= names(tb)


def test_a_second_process_that_dies_is_made_up_for(
    root: Path, tb: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(root, random.Random(1))
    tb.save()
    for path in root.rglob("f1*"):
        path.write_text("changed")
    wanted = {str(path.relative_to(root)) for path in root.rglob("f1*")}
    parent, look = os.getpid(), scan.look

    def dies(*args: object) -> scan.Dirty:
        if os.getpid() != parent:
            os._exit(9)
        return look(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(scan, "look", dies)
    monkeypatch.setattr(scan, "PARALLEL_FILES_MIN", 1)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert names(tb) == wanted


# The cache


def test_a_scan_looks_at_every_path_once(root: Path, tb: Workspace) -> None:
    for n in range(40):
        (root / f"f{n}").touch()
    tb.save()
    before = scan.stats_taken
    tb.save()
    assert scan.stats_taken - before == 41


SPOILED: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-5]),
    "altered": lambda path: path.write_bytes(path.read_bytes()[:-5] + b"xxxxx"),
    "of a later format": lambda path: path.write_bytes(path.read_bytes().replace(b"index ", b"index 9", 1)),
    "of nonsense": lambda path: path.write_bytes(tree_cache.MAGIC + bytes(500)),
}


@pytest.mark.parametrize("how", SPOILED)
def test_without_its_cache_everything_is_read_and_the_result_is_the_same(
    how: str, root: Path, tmp_path: Path
) -> None:
    def reopened() -> Workspace:
        return open_workspace(root, home=tmp_path / "state", watching=False)

    for n in range(5):
        (root / f"d{n}").mkdir()
        (root / f"d{n}" / "file").write_text(str(n))
    with reopened() as tb:
        first = tb.save().taken.marks[0]
    with reopened() as tb:
        again = tb.save().taken.marks[0]
    assert (first.evidence, again.evidence) == ("every file read", "scan")
    assert first.state == again.state
    (cache,) = (tmp_path / "state").rglob("files.index")
    SPOILED[how](cache)
    with reopened() as tb:
        anew = tb.save().taken.marks[0]
    assert (anew.evidence, anew.state) == ("every file read", first.state)


def test_two_processes_with_caches_of_different_ages(root: Path, tmp_path: Path) -> None:
    """A cache may be older than the journal: the changes are still counted from the last record."""
    (root / "file").write_text("one")
    home = tmp_path / "state"
    with open_workspace(root, home=home, watching=False) as tb:
        tb.save()
    (cache,) = home.rglob("files.index")
    old = cache.read_bytes()
    with open_workspace(root, home=home, watching=False) as tb, tb.recording("agent") as action:
        (root / "file").write_text("two")
    cache.write_bytes(old)
    with open_workspace(root, home=home, watching=False) as tb:
        assert tb.drift() == []
        assert tb.undo().of == (action,)
    assert (root / "file").read_text() == "one"
