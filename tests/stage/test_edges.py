"""Where a view ends: mounts, repositories elsewhere, processes and others at work on the same view."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import takeback
from takeback.engine.stage.deleting import delete
from takeback.engine.stage.folder import StageFolders
from takeback.errors import BackendError, RunBusy, UsageError
from takeback.system import namespaces
from takeback.workspace.staging import Stage
from takeback.workspace.workspace import Workspace
from tests.stage.mounting import mounted, with_own_mounts
from tests.world.cli import Workspace as World

GIT = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org"]
COMMIT = "echo more >> a; git -c user.name=x -c user.email=x@example.org commit -qam second"


@pytest.fixture(params=("", "user", "off"), ids=["overlay", "user", "copy"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TAKEBACK_NAMESPACES", request.param)
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    (root / "src").mkdir(parents=True)
    for name in ("a", "src/b"):
        (root / name).write_text(f"old {name}\n")
    return root


def sh(tb: Workspace, script: str, stage: str = "t1") -> int:
    return tb.stages[stage].run(["sh", "-c", script]).code


# Removing


@pytest.mark.parametrize("where", ["tree/shop/src", "tree/shop", "tree"])
@with_own_mounts
def test_what_is_mounted_in_a_view_is_not_deleted_with_it(
    root: Path, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAKEBACK_NAMESPACES", "off")
    real = tmp_path / "real"
    real.mkdir(mode=0o755)
    (real / "gold").write_text("gold\n")
    with takeback.open(root) as tb:
        stage = tb.stages.new()
        with mounted("--bind", str(real), place=stage.folder.path / where):
            with pytest.raises(BackendError, match=r"is mounted at .*; nothing was removed"):
                stage.drop()
            assert tb.stages.names() == ["t1"], "the view is still there, whole"
        assert (real / "gold").read_text() == "gold\n" and real.stat().st_mode & 0o777 == 0o755
        stage.drop()
        assert os.listdir(tb.state / "stages") == []


@with_own_mounts
def test_a_mount_that_comes_at_the_last_instant_is_not_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check is too early for such a mount: the deletion itself never enters one."""
    monkeypatch.setattr("takeback.engine.stage.deleting.refuse_mounts", lambda _: None)
    real = tmp_path / "real"
    real.mkdir()
    (real / "gold").write_text("gold\n")
    for place in ("gone/x", "gone/x/y/z"):
        (tmp_path / place).mkdir(parents=True)
        with mounted("--bind", str(real), place=tmp_path / place), pytest.raises(BackendError):
            delete(tmp_path / "gone")
        assert (real / "gold").read_text() == "gold\n"
        delete(tmp_path / "gone")
        assert not (tmp_path / "gone").exists()


def as_ordinary_owner(do: Callable[[], None]) -> int:
    """Return how a function ended that ran without the rights of root."""
    child = os.fork()
    if not child:
        code = 1
        try:
            namespaces.give_up_capabilities()
            do()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_folders_in_closed_folders_are_deleted(tmp_path: Path) -> None:
    deep = tmp_path / "x" / "a" / "b" / "c"
    deep.mkdir(parents=True)
    (deep / "f").write_text("f")
    for path in (deep, deep.parent, deep.parent.parent):
        path.chmod(0)
    assert as_ordinary_owner(lambda: delete(tmp_path / "x")) == 0
    assert not (tmp_path / "x").exists()


def test_a_deletion_leaves_what_links_lead_to_and_knows_no_depth(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "gold").write_text("gold\n")
    top = tmp_path / "x"
    top.mkdir()
    os.symlink(real, top / "link")
    here = os.open(top, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("deeper", dir_fd=here)
        below = os.open("deeper", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.symlink(real, "link", dir_fd=here)
    os.close(here)
    try:
        delete(top)
    finally:
        subprocess.run(["rm", "-rf", str(top / "deeper")], check=True)
    assert not top.exists() and (real / "gold").read_text() == "gold\n"


@with_own_mounts
def test_what_cannot_be_removed_does_not_stand_in_the_way_of_other_views(root: Path, tmp_path: Path) -> None:
    with takeback.open(root) as tb:
        left = tb.state / "stages" / ".gone-t1-1"
        (left / "m").mkdir(parents=True)
        (tmp_path / "real").mkdir()
        with mounted("--bind", str(tmp_path / "real"), place=left / "m"):
            tb.stages.new("fine")
            assert "is mounted at" in tb.notices[-1]
        StageFolders(tb.state).tidy()
        assert tb.stages.names() == ["fine"] and not left.exists()


def test_a_view_with_a_damaged_card_can_be_dropped(root: Path) -> None:
    with takeback.open(root) as tb:
        tb.stages.new("fine")
        damaged = tb.stages.new()
        assert sh(tb, "true") == 0
        (damaged.folder.home / "stage.json").write_text("{bad")
        assert tb.stages.bytes_used() == 0
        assert tb.stages.expire(14, 1 << 60) != [], "the others expire all the same"
        damaged.drop()
        assert tb.stages.names() == ["fine"]


# What is mounted below the workspace


@with_own_mounts
def test_a_mount_below_the_workspace_is_why_an_ordinary_user_gets_a_copy(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAKEBACK_NAMESPACES", "user")
    with mounted("-t", "tmpfs", "tmpfs", place=root / "src"), takeback.open(root) as tb:
        card = tb.stages.new().card
    assert card.kind == "copy" and str(root / "src") in card.why_copy and "only root" in card.why_copy


@with_own_mounts
def test_what_is_mounted_below_the_workspace_is_seen_in_a_view_and_stays(root: Path, tmp_path: Path) -> None:
    (root / "data" / "more").mkdir(parents=True)
    (tmp_path / "one").write_text("one\n")
    (root / "file").touch()
    with (
        mounted("-t", "tmpfs", "tmpfs", place=root / "data"),
        mounted("--bind", str(tmp_path / "one"), place=root / "file"),
    ):
        (root / "data" / "kept").write_text("kept\n")
        with takeback.open(root) as tb:
            stage = tb.stages.new()
            assert stage.card.kind == "overlay"
            assert sh(tb, "cat data/kept file && echo new > made && ! touch data/new && ! touch file") == 0
            assert {str(c.target) for c in stage.changes() if c.before != c.after} == {"made"}
            stage.accept().require_complete()
        assert (root / "data" / "kept").read_text() == "kept\n"
        assert (root / "made").read_text() == "new\n"


# A repository elsewhere


@pytest.fixture
def worktree(root: Path) -> Path:
    place = root.parent / "linked"
    subprocess.run([*GIT, "init", "-q"], cwd=root, check=True)
    subprocess.run([*GIT, "add", "-A"], cwd=root, check=True)
    subprocess.run([*GIT, "commit", "-qm", "first"], cwd=root, check=True)
    subprocess.run([*GIT, "worktree", "add", "-q", "-b", "side", str(place)], cwd=root, check=True)
    return place


def log_of(folder: Path) -> list[str]:
    done = subprocess.run(
        [*GIT, "log", "--format=%s"], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.split()


def test_a_commit_in_a_view_of_a_worktree_is_accepted(worktree: Path) -> None:
    with takeback.open(worktree) as tb:
        stage = tb.stages.new()
        assert sh(tb, COMMIT) == 0
        assert log_of(worktree) == ["first"]
        stage.accept().require_complete()
    assert log_of(worktree) == ["second", "first"]
    subprocess.run([*GIT, "fsck", "--strict"], cwd=worktree, check=True)
    assert not subprocess.run(
        [*GIT, "status", "--short"], cwd=worktree, check=True, capture_output=True
    ).stdout


def test_a_copy_of_a_worktree_is_refused(worktree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git in such a copy would write into the real repository."""
    monkeypatch.setenv("TAKEBACK_NAMESPACES", "off")
    with takeback.open(worktree) as tb:
        with pytest.raises(UsageError, match="is outside the workspace"):
            tb.stages.new()
        assert tb.stages.names() == []


def test_a_commit_in_a_worktree_inside_a_copy_stays_in_the_copy(
    root: Path, worktree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git writes whole paths into its own files, and they would lead back into the real workspace."""
    monkeypatch.setenv("TAKEBACK_NAMESPACES", "off")
    subprocess.run([*GIT, "worktree", "move", str(worktree), str(root / "inner")], cwd=root, check=True)
    with takeback.open(root) as tb:
        stage = tb.stages.new()
        assert {str(c.target) for c in stage.changes() if c.before != c.after} == set()
        assert sh(tb, f"cd inner && {COMMIT} && git worktree list") == 0
        assert log_of(root / "inner") == ["first"]
        stage.accept().require_complete()
    assert log_of(root / "inner") == ["second", "first"]
    subprocess.run([*GIT, "fsck", "--strict"], cwd=root, check=True)


def test_a_copy_with_a_worktree_of_another_repository_is_refused(
    root: Path, worktree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAKEBACK_NAMESPACES", "off")
    other = root.parent / "other"
    other.mkdir()
    subprocess.run([*GIT, "worktree", "move", str(worktree), str(other / "inner")], cwd=root, check=True)
    with takeback.open(other) as tb:
        with pytest.raises(UsageError, match="inner"):
            tb.stages.new()
        assert os.listdir(tb.state / "stages") == []


# Others at work


def wait_for_none(stage: Stage) -> None:
    deadline = time.monotonic() + 30
    while stage.living() and time.monotonic() < deadline:
        time.sleep(0.01)


def test_a_process_that_outlives_its_command_holds_a_copy(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAKEBACK_NAMESPACES", "off")
    with takeback.open(root) as tb:
        stage = tb.stages.new()
        assert sh(tb, "setsid sleep 300 >/dev/null 2>&1 & echo $! > pid") == 0
        (pid,) = stage.living()
        with pytest.raises(RunBusy, match="was not accepted"):
            stage.accept()
        with pytest.raises(RunBusy, match="was not dropped"):
            stage.drop()
        os.kill(pid, signal.SIGKILL)
        wait_for_none(stage)
        stage.drop()


def test_a_view_is_neither_accepted_nor_dropped_while_somebody_else_uses_it(
    root: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look of an acceptance and the removal of the view, a command could change it."""
    monkeypatch.setattr("takeback.engine.stage.folder.WAIT_S", 0.2)
    with takeback.open(root) as tb:
        stage = tb.stages.new()
        assert sh(tb, "echo new > made") == 0
        with stage.folder.used(), pytest.raises(RunBusy, match="is in use"):
            stage.drop()
        with stage.folder.used(), pytest.raises(RunBusy, match="is in use"):
            stage.accept()
        assert not (root / "made").exists()
        stage.accept().require_complete()
        with pytest.raises(UsageError, match="there is no view"):
            stage.run(["true"])
    assert (root / "made").read_text() == "new\n"


def test_a_command_does_not_join_another_network_than_it_asked_for(root: Path) -> None:
    with takeback.open(root) as tb:
        stage = tb.stages.new()
        assert sh(tb, "setsid sleep 300 >/dev/null 2>&1 & true") == 0
        (pid,) = stage.living()
        with pytest.raises(RunBusy, match="with the network full"):
            stage.run(["true"], network="none")
        assert stage.run(["true"]).code == 0
        os.kill(pid, signal.SIGKILL)
        wait_for_none(stage)
        assert stage.run(["true"], network="none").code == 0


# When the recorder dies


def test_try_keeps_the_view_when_its_recorder_was_killed(root: Path, tmp_path: Path) -> None:
    """What the command did is all that there is of hours of work."""
    world = World(root, tmp_path / "home")
    done = world.run("try", "--name", "v", "--drop", "--", "sh", "-c", "echo work > made; kill -9 $PPID")
    assert done.code == 125
    assert "the view v was kept" in done.stderr
    world.do("stage", "accept", "v")
    assert (root / "made").read_text() == "work\n"


def test_try_leaves_no_view_when_the_command_was_not_allowed(root: Path, tmp_path: Path) -> None:
    world = World(root, tmp_path / "home")
    (root / "takeback.toml").write_text('[rules.effects]\nunknown = "deny"\n')
    assert world.run("try", "--drop", "--", "./unknown-program").code == 3
    assert "There are no views" in world.do("stage", "list").stdout


# What is said


def test_an_acceptance_is_told_as_one(tmp_path: Path) -> None:
    world = World.at(tmp_path)
    world.human("a", "x")
    world.do("try", "--name", "v", "--accept", "--", "sh", "-c", "git init -q; echo 1 > b")
    subprocess.run([*GIT, "add", "-A"], cwd=world.root, check=True)
    subprocess.run([*GIT, "commit", "-qm", "first"], cwd=world.root, check=True)
    done = world.do("try", "--name", "w", "--accept", "--", "sh", "-c", COMMIT)
    assert "1 commit added" in done.said and "commit back" not in done.said
    assert "the acceptance of w" in world.do("undo").stdout


def test_a_damaged_view_does_not_hide_the_others(tmp_path: Path) -> None:
    world = World.at(tmp_path)
    world.human("a", "x")
    for name in ("bad", "fine"):
        world.do("stage", "new", name)
    (card,) = world.home.glob("workspaces/*/stages/bad/home/stage.json")
    card.write_text("{bad")
    shown = world.do("stage", "list")
    assert "fine" in shown.stdout and "takeback stage drop bad" in shown.said
    assert [one["name"] for one in world.do("stage", "list", "--json").json["stages"]] == ["bad", "fine"]
    assert world.run("status").code == 0
    world.do("stage", "drop", "bad")


def test_a_view_is_accepted_kept_or_dropped_and_only_one_of_them(tmp_path: Path) -> None:
    world = World.at(tmp_path)
    world.human("a", "x")
    done = world.run("try", "--accept", "--drop", "--", "sh", "-c", "echo 1 > b")
    assert done.code == 125 and "--accept" in done.stderr
