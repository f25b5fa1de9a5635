"""A human works in the same repository: what they did stays, what they hold is respected, what they know is said."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.world import picture as trees

from .picture import differences
from .repo import Repo, dirty, lines, project
from .scene import Scene, report

PUSH = re.compile(r"git push --force-with-lease=\S+ \S+ [\w/:]+")


def scene_of(folder: Path) -> Scene:
    repo = project(folder / "work")
    dirty(repo)
    return Scene.of(repo, folder / "state")


# What git does by itself


def test_a_status_of_the_human_is_no_conflict(tmp_path: Path) -> None:
    """It writes the index anew, with other bytes and the same entries."""
    scene = scene_of(tmp_path)
    before = scene.look()
    scene.agent("git add -A .; git commit -qm agent; git rm -q lib")
    index = scene.repo.root / ".git/index"
    left = index.read_bytes()
    os.utime(scene.repo.root / "app")
    time.sleep(0.02)
    scene.repo.git("status")
    assert index.read_bytes() != left
    mtime_ns = (scene.repo.root / "app").stat().st_mtime_ns
    scene.undo()
    # The human's touch stays; the rest is as it was.
    expected = before.tree | {b"app": before.tree[b"app"]._replace(mtime_ns=mtime_ns)}
    now = scene.look()
    assert differences(before, now, but=("file",)) == []
    assert trees.differences(expected, now.tree) == []


def test_a_status_before_the_agent_is_no_conflict_either(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    scene.world.save()
    os.utime(scene.repo.root / "app")
    time.sleep(0.02)
    scene.repo.git("status")
    before = scene.look()
    scene.agent("git reset -q --hard HEAD~1")
    scene.undo()
    scene.is_at(before)


def test_housekeeping_of_the_human_is_no_conflict(tmp_path: Path) -> None:
    """Packing refs and objects moves everything and changes nothing."""
    scene = scene_of(tmp_path)
    before = scene.look()
    scene.agent("git add -A .; git commit -qm agent; git branch -D topic; git tag -d v1")
    scene.repo.git("pack-refs", "--all")
    scene.repo.git("repack", "-adq")
    scene.undo()
    scene.is_at(before)


# What the human did


def test_a_ref_moved_after_the_preview_stays(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    repo = scene.repo
    scene.agent("git branch -f topic main; git tag agents; git branch -D easy")
    scene.undo("--preview")
    repo.git("branch", "-f", "topic", "main~2")
    moved = scene.look()
    said = report(scene.undo(code=3))
    assert "refs/heads/topic" in str(said)
    scene.is_at(moved)
    scene.undo("--on-conflict", "keep")
    assert repo.git("rev-parse", "topic") == repo.git("rev-parse", "main~2")
    assert repo.git("tag", "--list", "agents") == ""
    assert repo.git("branch", "--list", "easy") != ""


def test_a_ref_made_by_the_human_where_the_agent_deleted_stays(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    scene.agent("git branch -D easy")
    scene.repo.git("branch", "easy", "v1")
    made = scene.look()
    scene.undo(code=3)
    scene.is_at(made)


def test_refs_of_the_human_beside_those_of_the_agent_stay(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    repo = scene.repo
    before = scene.look()
    scene.agent("git branch agents; git tag -d v1; git commit -qam agent")
    repo.git("branch", "mine", "v2")
    repo.git("tag", "mine-too", "v2")
    repo.git("config", "branch.mine.description", "x")
    repo.git("config", "--unset", "branch.mine.description")
    scene.undo()
    new = repo.changes_since(before)
    assert [line for line in new if "/mine" not in line] == []
    assert repo.git("rev-parse", "mine") == repo.git("rev-parse", "v2^{commit}")


def test_a_stash_of_the_human_on_top_stays(tmp_path: Path) -> None:
    """The agent dropped one, the human pushed one: theirs is never lost."""
    scene = scene_of(tmp_path)
    repo = scene.repo
    scene.agent("git stash drop -q")
    repo.write("app", "of the human\n")
    repo.git("stash", "push", "-qm", "mine")
    mine = repo.git("rev-parse", "stash@{0}")
    done = scene.world.run("undo")
    assert done.code in (0, 3), done
    assert mine in repo.git("stash", "list", "--format=%H").split()
    assert repo.look().of("fsck") == {"main": b""}


def test_staged_by_the_human_stays(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    repo = scene.repo
    scene.agent("git add -A .; echo x > agents; git add agents; git tag agents")
    repo.write("mine", "staged by the human\n")
    repo.git("add", "mine")
    entries = repo.look().of("entries")
    done = scene.world.run("undo")
    assert done.code in (0, 3), done
    assert "mine" in repo.git("ls-files", "mine")
    if done.code == 3:
        assert repo.look().of("entries") == entries


def test_one_branch_can_be_chosen_from_a_preview(tmp_path: Path) -> None:
    """A report names refs as a person does, and counts them as verified."""
    scene = scene_of(tmp_path)
    scene.agent("git commit -qam agent; git branch -D easy")
    targets = {item["target"]: item for item in report(scene.undo())["items"] if item["resource"] == "git"}
    assert targets["refs/heads/main"]["did"] == "restored"
    assert targets["refs/heads/easy"]["verified"]


# What the human holds


@contextmanager
def human_at_work(repo: Repo, name: str) -> Iterator[None]:
    """A git process that holds a lock while it waits in a hook."""
    lock = repo.root / ".git" / name
    hooks = repo.root.parent / "hooks"
    hooks.mkdir(exist_ok=True)
    ready, gate = repo.root.parent / "ready", repo.root.parent / "gate"
    os.mkfifo(gate)
    (hooks / "pre-commit").write_text(f"#!/bin/sh\ntouch {ready}\nread wait < {gate}\n")
    (hooks / "pre-commit").chmod(0o755)
    with subprocess.Popen(
        ["git", "-c", f"core.hooksPath={hooks}", "commit", "-qam", "human"],
        cwd=repo.root,
        env=os.environ | repo.environment(),
        stderr=subprocess.DEVNULL,
    ) as process:
        deadline = time.monotonic() + 60
        while not ready.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert lock.exists()
        yield
        process.kill()
        gate.write_text("\n")
    lock.unlink()


def test_a_lock_of_a_living_git_is_respected(tmp_path: Path) -> None:
    """The item fails and says why, the rest is done; when the lock is gone, `undo` finishes."""
    scene = scene_of(tmp_path)
    repo = scene.repo
    before = scene.look()
    scene.agent("git add notes lib; git tag agents; git branch -D easy; echo x > app")
    index = (repo.root / ".git/index").read_bytes()
    with human_at_work(repo, "index.lock"):
        done = scene.undo(code=6)
        failed = [item for item in report(done)["items"] if not item["verified"]]
        assert [item["target"] for item in failed] == ["index"]
        assert "index.lock" in failed[0]["why"]
        assert (repo.root / ".git/index.lock").exists()
        assert (repo.root / ".git/index").read_bytes() == index
        assert repo.git("branch", "--list", "easy") != ""
        assert repo.git("tag", "--list", "agents") == ""
        assert (repo.root / "app").read_text() == lines("main")
    scene.undo()
    scene.is_at(before)


def test_a_lock_of_a_ref_is_respected(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    repo = scene.repo
    before = scene.look()
    scene.agent("git branch -f topic main; git tag agents")
    lock = repo.root / ".git/refs/heads/topic.lock"
    lock.touch()
    said = report(scene.undo(code=6))
    failed = {item["target"]: item["why"] for item in said["items"] if not item["verified"]}
    assert set(failed) == {"refs/heads/topic", "logs/refs/heads/topic"}
    assert "topic.lock" in failed["refs/heads/topic"]
    assert lock.exists()
    assert repo.git("tag", "--list", "agents") == ""
    lock.unlink()
    scene.undo()
    scene.is_at(before)


def test_hooks_are_never_run(tmp_path: Path) -> None:
    """Not by looking, not by taking back: each would leave a trace, and fail."""
    scene = scene_of(tmp_path)
    repo = scene.repo
    ran = tmp_path / "ran"
    for name in (
        *(
            "reference-transaction",
            "post-checkout",
            "pre-commit",
            "post-commit",
            "post-rewrite",
            "pre-rebase",
        ),
        *("post-index-change", "fsmonitor-watchman", "pre-auto-gc", "update", "post-update", "post-merge"),
    ):
        hook = repo.root / ".git/hooks" / name
        hook.write_text(f"#!/bin/sh\necho {name} >> {ran}\nexit 1\n")
        hook.chmod(0o755)
    repo.git("config", "core.fsmonitor", str(repo.root / ".git/hooks/fsmonitor-watchman"), code=None)
    before = scene.look()
    quiet = "git -c core.hooksPath=/dev/null -c core.fsmonitor=false"
    scene.agent(f"{quiet} commit -qam agent; {quiet} branch -D easy; {quiet} reset -q --hard HEAD~2")
    ran.unlink(missing_ok=True)
    scene.undo()
    assert scene.quick("redo") == 0
    scene.undo()
    assert scene.quick("verify", "--deep") == 0
    assert not ran.exists(), ran.read_text()
    scene.is_at(before)


# What is already elsewhere


def test_a_push_is_said_with_the_command_that_puts_it_back(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    repo = scene.repo
    remote = tmp_path / "remote.git"
    repo.git("clone", "-q", "--bare", str(repo.root), str(remote))
    repo.git("remote", "add", "origin", str(remote))
    repo.git("fetch", "-q", "origin")
    before = scene.look()
    old = repo.git("rev-parse", "main")
    scene.agent("git commit -qam agent; git push -q origin main")
    new = repo.git("rev-parse", "main")
    preview = scene.world.run("undo", "--preview").said
    done = scene.world.run("undo")
    commands = {match[0] for text in (preview, done.said) for match in PUSH.finditer(" ".join(text.split()))}
    (command,) = commands
    assert (new[:12] in command, old[:12] in command) == (True, True)
    # What is elsewhere is not touched, and not reported as taken back.
    assert done.code == 6
    assert repo.git("rev-parse", "main", at=remote) == new
    assert repo.git("rev-parse", "main") == old
    repo.git(*command.split()[1:])
    assert repo.git("rev-parse", "main", at=remote) == old
    found = repo.changes_since(before)
    assert [line for line in found if not line.startswith("reflog main logs/refs/remotes/origin/main")] == []
