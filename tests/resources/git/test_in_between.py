"""What a human does to the repository after the agent stays; where both moved one thing, nothing is guessed."""

from __future__ import annotations

import pytest

from takeback.errors import ConflictError, RollbackIncomplete

from .desk import Desk, git, says


def test_a_commit_on_another_branch_stays(desk: Desk) -> None:
    old = desk.at("main")
    desk.agent("echo agent > c; git add c; git commit -qm agent; git branch -q -D feature; git tag v1")
    desk.git("checkout", "-q", "-b", "mine", "HEAD~1")
    mine = desk.commit("mine", "mine\n")
    desk.git("checkout", "-q", "main")
    report = desk.undo()
    assert report.verdict == "clean"
    assert desk.at("mine") == mine and desk.at("main") == desk.at("feature") == old
    assert not desk.at("v1")
    logged = desk.git("reflog", "--format=%gs")
    assert "commit: mine" in logged and "commit: agent" not in logged
    assert desk.git("status", "--porcelain") == ""
    assert desk.git("fsck", "--no-dangling") == ""


def test_a_commit_on_top_is_a_conflict_and_changes_nothing(desk: Desk) -> None:
    desk.agent("echo agent > c; git add c; git commit -qm agent; git tag v1")
    mine = desk.commit("mine", "mine\n")
    before = desk.picture()
    with pytest.raises(ConflictError) as stopped:
        desk.undo()
    assert "refs/heads/main" in [i.target.name for i in stopped.value.report.items if i.did == "conflict"]
    assert desk.picture() == before
    logged = desk.git("reflog", "show", "main")
    report = desk.undo(on_conflict="keep")
    assert desk.at("main") == mine and not desk.at("v1")
    assert desk.git("reflog", "show", "main") == logged
    assert {i.target.name: i.did for i in report.items}["refs/heads/main"] == "kept"


def test_overwrite_moves_the_branch_and_the_commit_stays_reachable_by_redo(desk: Desk) -> None:
    old = desk.at("main")
    desk.agent("git commit -q --allow-empty -m agent")
    mine = desk.commit("mine", "mine\n")
    desk.undo(on_conflict="overwrite")
    assert desk.at("main") == old
    desk.git("gc", "-q", "--prune=now")
    desk.tb.redo()
    assert desk.at("main") == mine
    assert desk.git("fsck", "--no-dangling") == ""


def test_a_stash_of_the_human_stays_on_top(desk: Desk) -> None:
    desk.write("a", "before\n")
    desk.git("stash", "push", "-q", "-m", "before")
    kept = desk.at("stash@{0}")
    desk.agent("git stash drop -q; echo agent > a; git stash push -q -m agent")
    desk.write("a", "human\n")
    desk.git("stash", "push", "-q", "-m", "human")
    human = desk.at("stash@{0}")
    desk.git("gc", "-q", "--prune=now")
    desk.undo()
    assert desk.git("stash", "list", "--format=%H %gs").splitlines() == [
        f"{human} On main: human",
        f"{kept} On main: before",
    ]
    assert desk.git("fsck", "--no-dangling") == ""


def test_what_the_human_staged_stays_staged(desk: Desk) -> None:
    desk.write("mine", "mine\n")
    desk.agent("echo agent > c; echo agent > a; git add .; git commit -qm agent; git rm -q --cached b")
    desk.write("later", "later\n")
    desk.git("update-index", "--index-version", "4")
    desk.git("add", "later")
    report = desk.undo()
    assert {i.target.name: i.did for i in report.items}["index"] == "merged"
    assert desk.git("status", "--porcelain") == "A  later\n?? mine\n"
    assert desk.git("fsck", "--no-dangling") == ""
    desk.git("commit", "-qm", "later")
    assert desk.git("show", "--format=", "--name-only") == "later\n"


def test_one_name_that_both_staged_is_a_conflict(desk: Desk) -> None:
    desk.agent("echo agent > a; git add a")
    desk.write("a", "mine\n")
    desk.git("add", "a")
    with pytest.raises(ConflictError) as stopped:
        desk.undo()
    assert "index" in [i.target.name for i in stopped.value.report.items if i.did == "conflict"]


def test_settings_of_both(desk: Desk) -> None:
    desk.git("config", "core.pager", "less")
    desk.git("config", "alias.st", "status")
    desk.agent("sed -i 's/pager = less/pager = more/' .git/config")
    desk.git("config", "user.name", "Human")
    desk.undo()
    assert desk.git("config", "core.pager") == "less\n" and desk.git("config", "user.name") == "Human\n"


def test_a_lock_of_another_process_fails_one_item_and_names_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("takeback.resources.git.format.locks.WAIT_S", 0.1)
    old = desk.at("main")
    desk.agent("git branch -q -D feature; git commit -q --allow-empty -m agent")
    lock = desk.root / ".git/refs/heads/main.lock"
    lock.touch()
    with pytest.raises(RollbackIncomplete) as incomplete:
        desk.undo()
    failed = {i.target.name: i.why for i in incomplete.value.report.items if i.did == "failed"}
    assert "main.lock exists" in failed["refs/heads/main"]
    assert desk.at("feature") == old and lock.exists()
    lock.unlink()
    desk.undo()
    assert desk.at("main") == old


def test_a_push_is_named_with_the_command_that_would_put_it_back(desk: Desk) -> None:
    remote = desk.root.parent / "remote.git"
    git(desk.root, "init", "-q", "--bare", str(remote))
    desk.git("remote", "add", "origin", str(remote))
    desk.git("push", "-q", "origin", "main")
    old = desk.at("main")
    desk.agent(
        "git commit -q --allow-empty -m agent; git push -q origin main 2>&1; git push -q origin main:new 2>&1"
    )
    new = desk.at("main")
    with pytest.raises(RollbackIncomplete) as foreseen:
        desk.tb.undo(preview=True)
    command = f"git push --force-with-lease=refs/heads/main:{new[:12]} origin {old[:12]}:refs/heads/main"
    assert any(command in item.why for item in foreseen.value.report.items)
    with pytest.raises(RollbackIncomplete) as incomplete:
        desk.undo()
    whys = {i.target.name: i.why for i in incomplete.value.report.items if i.did == "kept" and not i.minor}
    assert set(whys) == {"refs/remotes/origin/main", "refs/remotes/origin/new"}
    assert "origin :refs/heads/new" in whys["refs/remotes/origin/new"]
    assert desk.at("main") == old
    desk.git(*command.split()[1:])
    assert git(remote, "rev-parse", "main").strip() == old


def test_a_fetch_is_taken_back(desk: Desk) -> None:
    other = desk.root.parent / "other"
    git(desk.root, "clone", "-q", str(desk.root), str(other))
    git(other, "commit", "-q", "--allow-empty", "-m", "theirs")
    desk.git("remote", "add", "origin", str(other))
    before = desk.picture()
    desk.agent("git fetch -q; git merge -q --ff-only origin/main")
    assert "remote branch origin/main removed" in says(desk.undo())
    assert desk.picture() == before
