"""A state folder that cannot be written, is another's or is full; a workspace that was moved or replaced."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.world.cli import REPOSITORY, Workspace, environment

from .inside import Inside
from .processes import bound

NOBODY = 65534


@pytest.fixture
def world(inside: Inside) -> Inside:
    return inside


def with_history(world: Workspace) -> str:
    """A checkpoint, and an action after it."""
    first = world.save("first")
    world.agent("echo new > plan.md")
    return first


# Where state cannot be kept


def test_a_read_only_state_folder(world: Inside) -> None:
    with_history(world)
    folders = [world.home, *(path for path in world.home.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o500)
    before = world.look()
    for words, code in ((("save",), 4), (("undo",), 4), (("run", "--", "touch", "made.md"), 125)):
        done = bound(world, *words, code=code)
        assert str(world.home) in done.stderr and "ermission" in done.stderr, done
    assert world.changes_since(before) == []
    for folder in folders:
        folder.chmod(0o700)
    world.do("verify", "--deep")
    world.undo()
    assert world.read("plan.md") == "old\n"


def test_a_state_folder_that_cannot_be_made(world: Inside) -> None:
    world.root.parent.chmod(0o500)
    try:
        done = bound(world, "save", code=4)
        assert "Nothing was recorded" in done.stderr
        bound(world, "run", "--", "true", code=125)
    finally:
        world.root.parent.chmod(0o700)


def test_a_state_folder_of_another_user(world: Inside) -> None:
    if os.geteuid() != 0:
        pytest.skip("not on this platform: only root can give a folder away")
    with_history(world)
    every = [world.home, *world.home.rglob("*")]
    for path in every:
        os.chown(path, NOBODY, NOBODY)
    before = world.look()
    for words, code in (
        (("save",), 4),
        (("undo",), 4),
        (("status",), 4),
        (("run", "--", "touch", "made.md"), 125),
    ):
        done = world.do(*words, code=code)
        assert "belongs to" in done.stderr and "TAKEBACK_HOME" in done.stderr, done
    assert world.changes_since(before) == []
    for path in every:
        os.chown(path, 0, 0)
    world.undo()
    assert world.read("plan.md") == "old\n"


def test_a_shared_folder_holds_no_state(world: Inside) -> None:
    world.home.mkdir()
    world.home.chmod(0o1777)
    assert "shared by all users" in world.do("save", code=4).stderr


def test_state_is_closed_to_others_whatever_the_umask(world: Inside) -> None:
    assert world.run("save", umask=0).code == 0
    for path in (world.home, *world.home.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize("module", ["small_disk", "filled_disk", "filled_disk_database"])
def test_a_full_disk(tmp_path: Path, module: str) -> None:
    flags = ["-m"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run(["unshare", *flags, "true"]).returncode:
        pytest.skip("not on this platform: no mount namespaces")
    done = subprocess.run(
        ["unshare", *flags, sys.executable, "-m", f"tests.cli.{module}", str(tmp_path)],
        cwd=REPOSITORY,
        env=environment(tmp_path / "state"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


# State inside the workspace


def test_a_state_folder_inside_the_workspace_is_not_recorded(tmp_path: Path) -> None:
    world = Inside(tmp_path / "work", tmp_path / "work" / "state")
    world.root.mkdir()
    world.human("plan.md", "old\n")
    with_history(world)
    assert "state" not in world.do("diff", "--stat", "c2").stdout
    world.undo()
    world.do("verify", "--deep")
    assert world.do("verify", "--json").json["drift"] == []


def test_a_state_folder_inside_the_workspace_by_a_link(tmp_path: Path) -> None:
    world = Inside(tmp_path / "work", tmp_path / "link" / "state")
    world.root.mkdir()
    (tmp_path / "link").symlink_to(world.root)
    world.human("plan.md", "old\n")
    with_history(world)
    changed = world.do("show", "a4", "--json").json["changed"]
    assert [change["target"] for change in changed] == ["plan.md"]
    world.undo()


def test_the_workspace_itself_is_no_place_for_its_state(tmp_path: Path) -> None:
    """ "never the workspace itself\""""
    world = Inside(tmp_path / "work", tmp_path / "work")
    world.root.mkdir(mode=0o755)
    world.human("plan.md", "old\n")
    done = world.run("save")
    assert done.code in (2, 3, 4), done
    assert os.listdir(world.root) == ["plan.md"]
    assert world.root.stat().st_mode & 0o777 == 0o755


# A workspace that is not where it was


def test_a_moved_workspace_is_known_again(world: Inside, tmp_path: Path) -> None:
    with_history(world)
    world.root.rename(tmp_path / "elsewhere")
    moved = Inside(tmp_path / "elsewhere", world.home)
    for words in (("status",), ("log",), ("undo",)):
        done = moved.do(*words, code=3)
        assert str(world.root) in done.stderr and "moved" in done.stderr
        assert "takeback init" in done.stderr
    assert moved.read("plan.md") == "new\n"
    moved.do("init")
    assert moved.action("agent")
    moved.undo()
    assert moved.read("plan.md") == "old\n"
    moved.do("verify", "--deep")


def test_a_moved_workspace_is_known_from_a_folder_inside(world: Inside, tmp_path: Path) -> None:
    (world.root / "deep").mkdir()
    with_history(world)
    world.root.rename(tmp_path / "elsewhere")
    done = Inside(tmp_path / "elsewhere" / "deep", world.home).do("status", code=3)
    assert "moved" in done.stderr


def test_run_in_a_moved_workspace_loses_no_history(world: Inside, tmp_path: Path) -> None:
    with_history(world)
    world.root.rename(tmp_path / "elsewhere")
    moved = Inside(tmp_path / "elsewhere", world.home)
    done = moved.run("run", "--name", "later", "--", "sh", "-c", "echo newer > plan.md")
    if done.code == 125:
        assert "moved" in done.stderr
        moved.do("init")
    assert moved.action("agent")


def test_a_copy_is_another_workspace(world: Inside, tmp_path: Path) -> None:
    with_history(world)
    shutil.copytree(world.root, tmp_path / "copy")
    copy = Inside(tmp_path / "copy", world.home)
    assert "not protected yet" in copy.do("status").stdout
    copy.save()
    assert "agent" not in copy.do("log").stdout
    world.undo()
    assert copy.read("plan.md") == "new\n" and world.read("plan.md") == "old\n"


def test_a_folder_that_was_replaced_keeps_the_history_of_its_place(world: Inside) -> None:
    first = with_history(world)
    shutil.rmtree(world.root)
    world.root.mkdir()
    world.human("other.md", "cloned anew\n")
    assert world.action("agent")
    world.do("restore", first)
    assert world.read("plan.md") == "old\n" and not world.has("other.md")
    world.do("redo")
    assert world.read("other.md") == "cloned anew\n"


def test_a_moved_workspace_whose_place_was_taken(world: Inside, tmp_path: Path) -> None:
    """`mv work old; git clone … work`: the history is not lost, and not mixed up without a word."""
    with_history(world)
    world.root.rename(tmp_path / "old")
    world.root.mkdir()
    moved = Inside(tmp_path / "old", world.home)
    said = moved.run("status").said
    assert str(world.root) in said, "the folder that was protected does not know its history any more"


def test_a_missing_card_is_no_lost_history(world: Inside) -> None:
    with_history(world)
    (card,) = world.home.glob("workspaces/*/workspace.json")
    card.write_text("{")
    done = world.do("status", code=5)
    assert str(card) in done.stderr and "takeback init" in done.stderr
    card.unlink()
    world.do("init")
    assert world.action("agent")
