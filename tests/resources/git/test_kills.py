"""Kill -9 while a repository is looked at or put back: the next command finishes it, and leaves no lock behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.crash.points import declared
from tests.world.kill import finish, killed_at, places_of

from .conftest import made
from .desk import Desk, picture
from .test_taking_back import EVERYTHING, prepared


def passages(places: list[str]) -> list[int]:
    """Where to die: the last passage of each place of git's; with --all each one."""
    of_git = [number for number, name in enumerate(places, 1) if name.startswith("git-")]
    if os.environ.get("TAKEBACK_TEST_ALL"):
        return of_git
    names = [places[number - 1] for number in of_git]
    return sorted(dict(zip(names, of_git, strict=True)).values())


@pytest.fixture
def scene(tmp_path: Path) -> Desk:
    desk = made(tmp_path / "work", tmp_path / "state")
    prepared(desk)
    desk.tb.close()
    return desk


def left_behind(root: Path) -> list[str]:
    found = [
        path
        for path in (root / ".git").rglob("*")
        if path.name.startswith(".takeback-") or path.suffix == ".lock"
    ]
    return [path.name for path in found]


def test_killed_at_each_place_of_an_undo(scene: Desk) -> None:
    root, home = scene.root, scene.home
    before = picture(root)
    assert finish(["run", "--", "sh", "-c", EVERYTHING], cwd=root, home=home) == 0
    after = picture(root)
    places = places_of(["undo"], cwd=root, home=home)
    assert picture(root) == before
    tried = passages(places)
    assert {places[n - 1] for n in tried} >= {
        "git-lock-held",
        "git-lock-written",
        "git-lock-renamed",
        "git-ref-removed",
        "git-stash-half",
        "git-operation-half",
        "git-objects-given",
        "git-marked",
    }
    for number in tried:
        assert finish(["redo"], cwd=root, home=home) == 0
        assert scene.git("for-each-ref") == after["refs"]
        if not killed_at(number, ["undo"], cwd=root, home=home):
            continue
        assert finish(["undo"], cwd=root, home=home) == 0
        # Looked at once: git writes the index anew when it is asked for the status.
        assert picture(root) == before, places[number - 1]
        assert left_behind(root) == []


def test_killed_while_objects_are_kept(scene: Desk) -> None:
    """A mark that was cut short is taken again: nothing that was there is missed."""
    places = places_of(["save"], cwd=scene.root, home=scene.home)
    assert "git-object-linked" in places
    scene.git("commit", "-q", "--allow-empty", "-m", "more")
    lost = scene.at("HEAD")
    assert killed_at(places.index("git-object-linked") + 1, ["save"], cwd=scene.root, home=scene.home)
    before = picture(scene.root)
    script = "git reset -q --soft HEAD~1; git reflog expire --expire=now --all; git gc -q --prune=now"
    assert finish(["run", "--", "sh", "-c", script], cwd=scene.root, home=scene.home) == 0
    assert scene.at(f"{lost}^{{commit}}") == ""
    assert finish(["undo"], cwd=scene.root, home=scene.home) == 0
    assert picture(scene.root) == before


def test_a_lock_of_another_is_never_taken_for_ours(scene: Desk) -> None:
    """Only a lock with the inode of a file of ours is removed."""
    from takeback.resources.git.format import locks

    folder = os.fsencode(scene.root / ".git")
    theirs, ours = folder + b"/index", folder + b"/HEAD"
    for path in (theirs + b".lock", folder + b"/.takeback-1"):
        with open(path, "wb"):
            pass
    os.link(folder + b"/.takeback-1", ours + b".lock")
    assert locks.free(folder, [theirs, ours]) == 1
    assert os.path.exists(theirs + b".lock") and not os.path.exists(ours + b".lock")
    assert not os.path.exists(folder + b"/.takeback-1")


def test_every_place_of_git_is_named_here() -> None:
    """Whoever adds a place adds a kill at it."""
    tried = {
        "git-object-linked",
        "git-marked",
        "git-lock-held",
        "git-lock-written",
        "git-lock-renamed",
        "git-ref-removed",
        "git-stash-half",
        "git-operation-half",
        "git-objects-packed",
        "git-objects-given",
    }
    assert {name for name in declared() if name.startswith("git-")} == tried
