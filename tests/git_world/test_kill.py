"""Kill -9 in the middle of taking a repository back: the next command finishes, and no lock is left behind."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.crash.points import declared
from tests.world.cli import environment, run_from_the_start

from .picture import Picture, differences, take, unsound
from .repo import Repo, merging, project
from .scene import Scene, thrown_away

AGENT = """
git merge --abort; git add -A .; git commit -qm agent; git checkout -q -b agents; git branch -D easy
git tag -d v1; git tag agents; git stash drop -q; git config x.y z; echo 'exit 1' > .git/hooks/pre-commit
git reset -q --hard v2; git worktree add -q wt; echo x > made
echo clash > app; git commit -qam clash; git rebase main
git reflog expire --expire=now --all; git gc -q --prune=now
"""
PACKED = "git-objects-packed"
"""Passed where only some of the objects of a pack are brought back."""
OURS = "git-"
"""How the names of the places begin that belong to git."""


@contextmanager
def stage(folder: Path) -> Iterator[tuple[Scene, Picture, Picture]]:
    """A repository in the middle of a merge, an agent who threw everything over, and both pictures."""
    with thrown_away(folder):
        repo = project(folder / "work")
        merging(repo)
        scene = Scene.of(repo, folder / "state")
        before = scene.look()
        scene.agent(AGENT)
        yield scene, before, scene.look()


def places(folder: Path, command: str) -> list[str]:
    with stage(folder) as (scene, _, _):
        if command == "redo":
            assert scene.quick("undo") == 0
        return scene.places(command)


def wrong(scene: Scene, *allowed: Picture) -> str:
    """Let the next command finish; whether all is then as it was, or as it was before that."""
    if (code := scene.quick("save")) != 0:
        return f"the next save ended with {code}"
    now = scene.look()
    if bad := unsound(now):
        return f"unsound: {bad}"
    found = [differences(picture, now) for picture in allowed]
    if not any(not some for some in found):
        return f"half done: {min(found, key=len)[:10]}"
    if (code := scene.quick("verify", "--deep")) != 0:
        return f"verify --deep ended with {code}"
    return ""


def killed(folder: Path, command: str, place: int, *, twice: bool = False) -> str:
    with stage(folder) as (scene, before, after):
        if command == "redo":
            assert scene.quick("undo") == 0
        if not scene.killed(place, command):
            return ""
        if twice:
            for again in (1, 3, 7, 13, 25, 45):
                if not scene.killed(again, "save"):
                    break
        return wrong(scene, before, after)


def chosen(passed: list[str], *, every: bool) -> list[tuple[int, str]]:
    """Each place of git's at its last passage, or every passage of every place."""
    numbered = list(enumerate(passed, 1))
    if every:
        return numbered
    ours = [(number, name) for number, name in numbered if name.startswith(OURS)]
    return sorted((number, name) for name, number in {name: number for number, name in ours}.items())


def test_every_place_of_git_is_passed(tmp_path: Path) -> None:
    """A place that no undo passes would never be tried."""
    passed = set(places(tmp_path / "undo", "undo"))
    known = {name for name in declared() if name.startswith(OURS)}
    assert known, "git has no named place"
    with cleaned_up(tmp_path / "packed") as (scene, _):
        passed |= set(scene.places("undo"))
    assert known <= passed | set(places(tmp_path / "redo", "redo"))


@contextmanager
def cleaned_up(folder: Path) -> Iterator[tuple[Scene, Picture]]:
    """An agent dropped a branch, and the human cleaned up: what it leads to comes out of a pack of everything."""
    with thrown_away(folder):
        repo = project(folder / "work")
        repo.git("gc", "-q")
        scene = Scene.of(repo, folder / "state")
        before = scene.look()
        scene.agent("git branch -D topic")
        repo.git("reflog", "expire", "--expire=now", "--all")
        repo.git("gc", "-q", "--prune=now")
        yield scene, before


def test_killed_when_objects_are_packed(tmp_path: Path) -> None:
    with cleaned_up(tmp_path / "dry") as (scene, _):
        place = scene.places("undo").index(PACKED) + 1
    with cleaned_up(tmp_path / "killed") as (scene, before):
        assert scene.killed(place, "undo")
        assert scene.quick("save") == 0
        assert unsound(scene.look()) == []
        assert differences(before, scene.look(), but=("reflog", "object", "status", "file")) == []


def test_killed_at_each_place_of_git(tmp_path: Path) -> None:
    found = [
        f"at place {place}, {name}: {bad}"
        for place, name in chosen(places(tmp_path / "dry", "undo"), every=False)
        if (bad := killed(tmp_path / str(place), "undo", place))
    ]
    assert not found, "\n".join(found)


def test_killed_under_the_lock_of_the_packed_refs(tmp_path: Path) -> None:
    """The next process knows nothing yet of the repository, and has to find the lock all the same."""
    passed = places(tmp_path / "dry", "undo")
    locked = [place for place, name in enumerate(passed, 1) if name == "git-lock-held"]
    found = [bad for place in locked[:6] if (bad := killed(tmp_path / str(place), "undo", place))]
    assert not found, "\n".join(found)


@pytest.mark.sweep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("command", ["undo", "redo"])
@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
def test_killed_at_every_passage(command: str, twice: bool, tmp_path: Path) -> None:
    found = [
        f"at place {place}, {name}: {bad}"
        for place, name in chosen(places(tmp_path / "dry", command), every=True)
        if (bad := killed(tmp_path / str(place), command, place, twice=twice))
    ]
    assert not found, "\n".join(found)


def kill_after(scene: Scene, seconds: float, *command: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "takeback", *command],
        cwd=scene.repo.root,
        env=environment(scene.world.home),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        time.sleep(seconds)
        process.kill()


def at_moments(folder: Path, parts: list[float]) -> list[str]:
    """Kill an undo after a part of the time that it usually takes."""
    with stage(folder / "usual") as (scene, _, _):
        begun = time.monotonic()
        done = run_from_the_start(["undo"], cwd=scene.repo.root, env=environment(scene.world.home))
        assert done.code == 0, done
        usual_s = time.monotonic() - begun
    found = []
    for part in parts:
        with stage(folder / "killed") as (scene, before, after):
            kill_after(scene, usual_s * part, "undo")
            if bad := wrong(scene, before, after):
                found.append(f"after {part:.3f} of its time: {bad}")
    return found


def test_killed_at_some_moments(tmp_path: Path) -> None:
    found = at_moments(tmp_path, [0.85])
    assert not found, "\n".join(found)


@pytest.mark.sweep
@pytest.mark.timeout(1800)
def test_killed_at_random_moments(tmp_path: Path) -> None:
    chance = random.Random(606)
    found = at_moments(tmp_path, [chance.uniform(0.4, 1.05) for _ in range(60)])
    assert not found, "\n".join(found)


def test_a_human_who_commits_after_the_kill_keeps_the_commit(tmp_path: Path) -> None:
    """Whatever was put back and what was not yet: the next command does not write over them."""
    passed = places(tmp_path / "dry", "undo")
    ours = [number for number, name in enumerate(passed, 1) if name.startswith(OURS)]
    for place in (ours[0], ours[len(ours) // 2], ours[-1]):
        with stage(tmp_path / str(place)) as (scene, _, _):
            assert scene.killed(place, "undo")
            repo = scene.repo
            human = _commit_elsewhere(repo)
            assert scene.world.run("save").code == 0
            assert repo.git("rev-parse", "refs/heads/human") == human
            now = take(repo.root)
            assert unsound(now) == []


def _commit_elsewhere(repo: Repo) -> str:
    """A commit on a branch of their own, without index or HEAD."""
    tree = repo.git("hash-object", "-w", "-t", "tree", "/dev/null")
    made = repo.git("commit-tree", "-m", "human", tree)
    repo.git("update-ref", "refs/heads/human", made)
    return made


def test_no_empty_folder_is_left_over(tmp_path: Path) -> None:
    passed = places(tmp_path / "dry", "undo")
    place = len(passed) - passed[::-1].index("git-lock-renamed")
    with stage(tmp_path / "killed") as (scene, before, _):
        assert scene.killed(place, "undo")
        assert scene.quick("save") == 0
        scene.is_at(before)
