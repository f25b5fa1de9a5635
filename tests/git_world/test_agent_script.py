"""What an agent's git commands did is taken back: refs, HEAD, index, stash, operation in progress, files.

Once as a single action, once command by command; from a clean repository and from the middle of a merge, a rebase, a
cherry-pick, a revert, a bisect, with staged, unstaged, untracked and ignored work and two stashes lying about.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .picture import differences
from .repo import STARTS, Repo, dirty, project
from .scene import Scene, everything, sample

AGENT = {
    "commit": "echo a > made; git add -A . ; git commit -m agent",
    "amend": "echo more >> lib; git commit -a --amend -m amended",
    "reset --hard": "git reset --hard HEAD~2",
    "checkout -b": "git rebase --quit; git bisect reset; git checkout -f -b agent v1",
    "branch -D": "git branch -D easy",
    "stash": "echo x >> lib; echo y > unknown; git stash push -u -m agents",
    "stash drop": "git stash drop stash@{1}; git stash drop",
    "rebase stopped in a conflict": "git checkout -f topic && git rebase main",
    "clean -fdX": "echo l > l.log; git clean -fdX; rm -rf build",
    "tag": "git tag agents; git tag -am agents annotated; git tag -f v1 main; git tag -d v2",
    "pack-refs": "git branch loose; git pack-refs --all --prune",
    "worktree add": "git worktree add -b elsewhere wt main",
    "gc --prune=now": "git tag after; git reflog expire --expire=now --all; git gc --quiet --prune=now",
}
SCRIPT = "\n".join(AGENT.values())


def scene_of(folder: Path, start: str) -> Scene:
    repo = project(folder / "work")
    STARTS[start](repo)
    return Scene.of(repo, folder / "state")


@pytest.mark.parametrize("start", sample(list(STARTS), "dirty", "merging", "rebasing"))
def test_a_whole_script_is_taken_back_at_once(start: str, tmp_path: Path) -> None:
    scene = scene_of(tmp_path, start)
    before = scene.look()
    done = scene.world.run("run", "--", "sh", "-c", SCRIPT + "\ntrue")
    assert done.code == 0, done
    after = scene.look()
    assert any("rebase-merge" in name for name in after.of("operation"))
    scene.undo()
    scene.is_at(before)
    if everything():
        assert scene.quick("redo") == 0
        scene.is_at(after)


@pytest.mark.parametrize("start", sample(list(STARTS), "merging"))
def test_command_after_command_is_taken_back(start: str, tmp_path: Path) -> None:
    """One action for each command, then back through all of them, looking each time."""
    scene = scene_of(tmp_path, start)
    pictures = [scene.look()]
    for name, script in AGENT.items():
        scene.agent(script)
        pictures.append(scene.look())
        assert differences(pictures[-2], pictures[-1]), f"{name} did nothing"
    for name, before in zip(reversed(AGENT), reversed(pictures[:-1]), strict=True):
        assert scene.quick("undo") == 0, name
        assert scene.repo.changes_since(before) == [], f"undo of {name}"


@pytest.mark.parametrize("name", sample(list(AGENT), "reset --hard"))
@pytest.mark.parametrize("start", sample(list(STARTS), "rebasing"))
def test_each_command_alone(start: str, name: str, tmp_path: Path) -> None:
    scene = scene_of(tmp_path, start)
    before = scene.look()
    scene.agent(AGENT[name])
    if differences(before, scene.look()):
        assert scene.quick("undo") == 0
    scene.is_at(before)


# With a human in between


def test_a_human_commit_on_another_branch_stays(tmp_path: Path) -> None:
    """The human has a worktree of their own; all that the agent did goes, all that they did stays."""
    scene = scene_of(tmp_path, "dirty")
    repo = scene.repo
    repo.git("worktree", "add", "-q", "-b", "human", str(tmp_path / "desk"), "main")
    desk = Repo(tmp_path / "desk", repo.clock)
    before = scene.look()
    names = list(AGENT)
    scene.agent("\n".join(AGENT[name] for name in names[:6]))
    first = desk.commit("Human", mine="human\n")
    scene.agent("\n".join(AGENT[name] for name in names[6:]))
    second = desk.commit("Human again", mine="human again\n")
    assert scene.quick("undo") == 0
    assert scene.quick("undo") == 0
    assert repo.git("rev-parse", "human", "human~1").split() == [second, first]
    found = repo.changes_since(before)
    assert [line for line in found if not _is_of_the_human(line)] == []
    assert (desk.root / "mine").read_text() == "human again\n"


def _is_of_the_human(line: str) -> bool:
    return "worktree desk" in line or line.startswith(
        ("ref main refs/heads/human:", "reflog main logs/refs/heads/human:", "worktrees main:")
    )


def test_a_human_commit_on_the_same_branch_stays(tmp_path: Path) -> None:
    """Taking the agent's commit below it back would lose it: that is a conflict, and nothing changes unless told."""
    scene = scene_of(tmp_path, "clean")
    repo = scene.repo
    scene.agent("echo a > by-agent; git add .; git commit -m agent; git tag agents; git branch -D easy")
    human = repo.commit("Human", mine="human\n")
    after = scene.look()
    scene.undo(code=3)
    scene.is_at(after)
    scene.undo("--on-conflict", "keep")
    assert repo.git("rev-parse", "main") == human
    assert repo.git("symbolic-ref", "HEAD") == "refs/heads/main"
    assert repo.git("tag", "--list", "agents") == ""
    assert repo.git("branch", "--list", "easy") != ""
    assert (repo.root / "mine").read_text() == "human\n"
    assert repo.look().of("fsck") == {"main": b""}


def test_a_human_commit_between_two_of_the_agent_stays(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, "clean")
    repo = scene.repo
    begin = scene.world.save()
    scene.agent("echo a > one; git add .; git commit -m one")
    human = repo.commit("Human", mine="human\n")
    between = scene.look()
    scene.agent("echo a > two; git add .; git commit -m two; git stash list; git reset --soft HEAD~1")
    after = scene.look()
    scene.undo("--to", begin, code=3)
    scene.is_at(after)
    assert scene.quick("undo") == 0
    scene.is_at(between)
    scene.undo("--to", begin, "--on-conflict", "keep")
    assert repo.git("rev-parse", "main") == human
    assert (repo.root / "mine").read_text() == "human\n"
    assert repo.look().of("fsck") == {"main": b""}


def test_a_rewritten_branch_keeps_the_humans_commit_within_reach(tmp_path: Path) -> None:
    """The human committed, the agent threw it away with reset and gc: it comes back, whole."""
    repo = project(tmp_path / "work")
    dirty(repo)
    human = repo.commit("Human", mine="human\n")
    scene = Scene.of(repo, tmp_path / "state")
    before = scene.look()
    scene.agent(
        "git reset --hard HEAD~3; git stash clear; git reflog expire --expire=now --all; git gc -q --prune=now"
    )
    assert repo.git("cat-file", "-t", human, code=None) == ""
    assert scene.quick("undo") == 0
    scene.is_at(before)
    assert repo.git("show", f"{human}:mine") == "human"
