"""Worktrees, submodules, repositories elsewhere, and what is not covered."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from takeback.errors import ConflictError, RollbackIncomplete

from .conftest import made
from .desk import Desk, git, picture, says


def test_a_worktree_outside_is_unregistered_and_its_folder_stays(desk: Desk) -> None:
    before = desk.picture()
    desk.agent("git worktree add -q ../outside -b wt; git -C ../outside commit -q --allow-empty -m wt")
    report = desk.undo()
    assert desk.picture() == before and not (desk.root / ".git/worktrees").exists()
    (left,) = [i.why for i in report.items if i.target.name == "worktrees/outside/gitdir"]
    assert left == f"its folder {desk.root.parent / 'outside'} is outside the workspace, and stays"
    assert (desk.root.parent / "outside/a").exists()


def test_a_worktree_of_the_human_is_back_with_its_own_head_and_index(desk: Desk) -> None:
    desk.git("worktree", "add", "-q", "wt", "-b", "mine")
    (desk.root / "wt/staged").write_text("staged")
    desk.git("-C", "wt", "add", "staged")
    before = picture(desk.root), picture(desk.root / "wt")
    desk.agent("git -C wt checkout -q -b agent; git -C wt commit -qm agent; git worktree remove --force wt")
    desk.undo()
    assert (picture(desk.root), picture(desk.root / "wt")) == before


def test_a_workspace_that_is_a_linked_worktree(desk: Desk) -> None:
    desk.git("worktree", "add", "-q", "../linked", "-b", "linked")
    linked = Desk(desk.root.parent / "linked", desk.root.parent / "linked-state")
    before = linked.picture(), desk.picture()
    linked.agent("git commit -q --allow-empty -m agent; git branch -q -D feature; rm .git")
    linked.undo()
    assert (linked.picture(), desk.picture()) == before
    linked.tb.close()


@pytest.mark.parametrize("link", ["ln -s ../other/.git .git", "echo 'gitdir: ../other/.git' > .git"])
def test_another_repository_is_never_written_to(desk: Desk, tmp_path: Path, link: str) -> None:
    """An agent that leads `.git` elsewhere does not make an undo destroy what is there."""
    other = made(tmp_path / "other", tmp_path / "other-state")
    other.git("branch", "precious")
    before = picture(other.root)
    desk.tb.save()
    desk.agent(f"mv .git ../aside; {link}; echo agent > a")
    with pytest.raises(ConflictError, match="another repository"):
        desk.undo()
    desk.undo(on_conflict="keep")
    assert (desk.root / "a").read_text() == "one\n"
    assert picture(other.root) == before
    other.tb.close()


def test_a_worktree_that_is_led_to_another_repository(desk: Desk, tmp_path: Path) -> None:
    desk.git("worktree", "add", "-q", "../linked", "-b", "linked")
    linked = Desk(tmp_path / "linked", tmp_path / "linked-state")
    other = made(tmp_path / "other", tmp_path / "other-state")
    before = picture(other.root)
    linked.tb.save()
    linked.agent("echo ../../../../other/.git > ../work/.git/worktrees/linked/commondir")
    with pytest.raises(ConflictError, match="another repository"):
        linked.undo()
    assert picture(other.root) == before
    linked.tb.close()
    other.tb.close()


def test_a_submodule(desk: Desk, tmp_path: Path) -> None:
    library = made(tmp_path / "library", tmp_path / "library-state")
    library.tb.close()
    desk.git("submodule", "add", "-q", str(library.root), "lib/one")
    desk.git("commit", "-qm", "with a submodule")
    before = desk.picture(), picture(desk.root / "lib/one")
    desk.agent(
        "cd lib/one; git checkout -q -b agent; git commit -q --allow-empty -m agent; git branch -q -D main;"
        "git reflog expire --expire=now --all; git gc -q --prune=now; cd ../..; git add lib/one; git commit -qm moved"
    )
    report = desk.undo()
    assert (desk.picture(), picture(desk.root / "lib/one")) == before
    assert any(said.startswith("submodule lib/one: HEAD back on main") for said in says(report)), says(report)


def test_a_submodule_that_the_agent_added_is_gone(desk: Desk, tmp_path: Path) -> None:
    library = made(tmp_path / "library", tmp_path / "library-state")
    library.tb.close()
    before = desk.picture()
    desk.agent(f"git submodule add -q {library.root} lib; git commit -qm lib")
    added = desk.picture()
    desk.undo()
    assert desk.picture() == before
    assert not (desk.root / ".git/modules").exists() and not (desk.root / "lib").exists()
    desk.tb.redo()
    assert desk.picture()["status"] == added["status"]
    assert git(desk.root / "lib", "fsck", "--no-dangling") == ""


def test_tables_of_refs_are_refused_and_the_files_are_still_covered(desk: Desk) -> None:
    (desk.root / ".git/reftable").mkdir()
    (desk.root / ".git/reftable/tables.list").write_text("")
    id = desk.agent("echo agent > a; git branch x")
    marks = {mark.resource: mark for mark in desk.tb.history.marks.values()}
    assert any("reftable" in stated for stated in marks["git"].stated)
    assert {c.target.name for c in desk.tb.history.actions[id].changes if c.target.resource == "files"} == {
        "a"
    }
    desk.undo()
    assert (desk.root / "a").read_text() == "one\n"


def test_borrowed_objects_are_stated(desk: Desk) -> None:
    clone = desk.root.parent / "clone"
    git(desk.root, "clone", "-q", "--shared", str(desk.root), str(clone))
    borrower = Desk(clone, desk.root.parent / "clone-state")
    borrower.tb.save()
    assert any("borrowed" in stated for stated in borrower.tb.history.marks["git"].stated)
    before = borrower.picture()
    borrower.agent("git commit -q --allow-empty -m agent; git gc -q --prune=now")
    borrower.undo()
    assert borrower.picture() == before
    borrower.tb.close()


def test_without_git_it_is_said_and_everything_comes_back(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = desk.picture()
    desk.agent("git commit -q --amend -m agent; git reflog expire --expire=now --all; git gc -q --prune=now")
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", "/nowhere")
    report = desk.undo()
    assert any("git is not installed" in stated for stated in desk.tb.history.marks["git"].stated)
    assert any(said.startswith("branch main back at") and "commit" not in said for said in says(report))
    monkeypatch.setenv("PATH", path)
    assert desk.picture() == before


def test_a_folder_without_a_repository(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    plain = Desk(tmp_path / "work", tmp_path / "state")
    plain.agent("echo text > a")
    assert plain.tb.history.marks["git"].stated == ()
    plain.undo()
    assert not (plain.root / "a").exists()
    plain.tb.close()


def test_a_damaged_object_is_found_and_no_ref_points_to_it(desk: Desk) -> None:
    desk.commit("c", "to be lost\n")
    lost, old = desk.at("main"), desk.at("main~1")
    desk.tb.save()
    desk.agent("git reset -q --hard HEAD~1; git reflog expire --expire=now --all; git gc -q --prune=now")
    kept = next(desk.home.rglob(f"{lost[:2]}/{lost[2:]}"))
    kept.chmod(0o600)
    kept.write_bytes(b"damaged")
    with pytest.raises(RollbackIncomplete) as incomplete:
        desk.undo()
    failed = {i.target.name: i.why for i in incomplete.value.report.items if i.did == "failed"}
    assert "refs/heads/main" in failed
    assert desk.at("main") == old
    assert desk.git("log", "--format=%s", "--all") == "b\na\n"


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="not on this platform: no second file system")
def test_on_another_file_system_objects_are_copied(desk: Desk, tmp_path: Path) -> None:
    home = Path(f"/dev/shm/takeback-test-{os.getpid()}")
    if os.stat("/dev/shm").st_dev == os.stat(tmp_path).st_dev:
        pytest.skip("not on this platform: no second file system")
    other = Desk(desk.root, home)
    try:
        before = other.picture()
        other.agent(
            "git commit -q --amend -m agent; git reflog expire --expire=now --all; git gc -q --prune=now"
        )
        other.undo()
        assert other.picture() == before
        copies = [path for path in home.rglob("git/objects/**/*") if path.is_file()]
        assert copies and all(path.stat().st_mode & 0o077 == 0 for path in copies)
    finally:
        other.tb.close()
        shutil.rmtree(home)
