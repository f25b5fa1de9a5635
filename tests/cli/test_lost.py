"""A history that was removed is missed: everybody is told, nobody is locked out."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from takeback.core import events as e
from takeback.core import ids
from takeback.settings import environment
from takeback.workspace.opening import open_workspace
from tests.agents.driving import Agent, refusal
from tests.world.cli import Result, Workspace

GONE = "that history is gone"


@pytest.fixture
def world(tmp_path: Path) -> Workspace:
    made = Workspace.at(tmp_path)
    made.human("a", "mine")
    made.agent("rm a")
    return made


def everything(world: Workspace) -> None:
    shutil.rmtree(world.home)


def one_folder(world: Workspace) -> None:
    (state,) = world.home.glob("workspaces/*")
    shutil.rmtree(state)


def journal_and_anchor(world: Workspace) -> None:
    for path in world.home.glob("workspaces/*/journal*"):
        path.unlink()


def journal(world: Workspace) -> None:
    for path in world.home.glob("workspaces/*/journal.db*"):
        path.unlink()


WAYS = [everything, one_folder, journal_and_anchor, journal]
Way = Callable[[Workspace], None]


def says_so(done: Result) -> bool:
    return GONE in done.said and "takeback init --fresh" in done.said


@pytest.mark.parametrize("remove", WAYS)
def test_a_history_that_was_removed_is_missed_everywhere(remove: Way, world: Workspace) -> None:
    remove(world)
    assert says_so(world.do("status"))
    assert world.do("status", "--json").json["lost"]["since"]
    assert says_so(world.do("undo", code=5))
    assert says_so(world.do("undo", "a4", code=5))
    assert "error" in world.do("undo", "--json", code=5).json
    world.do("verify", code=5)
    assert GONE in world.do("doctor", code=5).said


@pytest.mark.parametrize("remove", [everything, journal_and_anchor])
def test_a_new_history_does_not_hide_that_the_old_one_is_gone(remove: Way, world: Workspace) -> None:
    remove(world)
    world.human("b", "mine")
    assert says_so(world.agent("rm b"))
    for words, code in ((("status",), 0), (("verify",), 5), (("doctor",), 5)):
        assert GONE in world.do(*words, code=code).said
    world.undo()
    assert world.read("b") == "mine"
    world.do("undo", code=5)


@pytest.mark.parametrize("remove", WAYS)
def test_a_human_goes_on_without_it_and_loses_nothing_more(remove: Way, world: Workspace) -> None:
    remove(world)
    done = world.do("init", "--fresh")
    if remove is journal:
        assert "is now in" in done.stdout and list(world.home.glob("lost/*/packs"))
    world.human("b", "mine")
    world.agent("rm b")
    world.undo()
    assert world.read("b") == "mine"
    for words in (("undo",), ("status",), ("verify",)):
        assert GONE not in world.do(*words).said
    # What has been begun since is not dropped by asking again.
    world.do("init", "--fresh")
    assert "rm b" in world.do("log").said or "agent" in world.do("log").said


def test_an_agent_cannot_go_on_without_it(world: Workspace) -> None:
    import sys

    journal_and_anchor(world)
    done = world.run("run", "--", sys.executable, "-m", "takeback", "init", "--fresh")
    assert done.code == 3 and GONE in world.do("status").said


def test_a_folder_that_is_put_back_is_the_history_again(world: Workspace, tmp_path: Path) -> None:
    os.rename(world.home, tmp_path / "aside")
    world.do("undo", code=5)
    shutil.rmtree(world.home, ignore_errors=True)
    os.rename(tmp_path / "aside", world.home)
    world.undo()
    assert world.read("a") == "mine"


def test_other_folders_and_other_homes_are_not_accused(world: Workspace, tmp_path: Path) -> None:
    elsewhere = Workspace(world.root, tmp_path / "second")
    assert GONE not in elsewhere.do("save").said, "a state folder of its own has a history of its own"
    os.rename(world.root, tmp_path / "moved")
    moved = Workspace(tmp_path / "moved", world.home)
    assert GONE not in moved.do("init").said
    moved.undo()
    everything(world)
    world.root.mkdir()
    assert GONE not in world.do("status").said, "another folder at the same path is another workspace"
    assert GONE not in world.do("save").said
    assert GONE in moved.do("status").said


def test_each_new_session_is_told(world: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAKEBACK_HOME", str(world.home))
    everything(world)
    for session in ("s1", "s2"):
        client = Agent("claude-code", world.root, session)
        first = client.prompt("go", "p1")
        assert GONE in first.stdout.decode() and refusal(first) == ""
        assert GONE not in client.shell("true", "c1").stdout.decode()
        client.end()


def test_the_witness_is_private_and_bounded(world: Workspace, tmp_path: Path) -> None:
    folder = Path(os.environ["XDG_DATA_HOME"]) / "takeback/witness"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (note,) = folder.iterdir()
    assert stat.S_IMODE(note.stat().st_mode) == 0o600 and note.stat().st_size < 2000
    shutil.rmtree(world.root)
    other = Workspace.at(tmp_path / "other")
    other.do("save")
    assert note not in list(folder.iterdir()), "of a folder that is gone nobody could miss anything"


def test_nobody_needs_the_witness(world: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    world.undo()
    world.agent("rm a")
    world.undo()
    assert world.read("a") == "mine"


def test_an_empty_journal_is_not_nothing_to_take_back(world: Workspace) -> None:
    shutil.rmtree(os.environ["XDG_DATA_HOME"])
    journal(world)
    assert "is empty" in world.do("undo", code=5).stderr


def test_the_daemon_remembers_what_it_had_open(world: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    from takeback.daemon.pool import Pool

    pool = Pool(lambda root: open_workspace(root, home=world.home))
    with pool.workspace(world.root) as opened:
        assert opened.lost is None
    shutil.rmtree(os.environ["XDG_DATA_HOME"])
    one_folder(world)
    with pool.workspace(world.root) as opened:
        assert opened.lost is not None
    pool.close()


# An old copy of the state folder in the place of the one of today

OLDER = "is older than what was recorded"


@pytest.fixture
def older(world: Workspace, tmp_path: Path) -> Workspace:
    """A workspace in whose last action `b` was removed, with a state folder that knows only that `a` was."""
    world.human("b", "mine")
    world.save()
    shutil.copytree(world.home, tmp_path / "copy")
    world.agent("rm b")
    shutil.rmtree(world.home)
    shutil.copytree(tmp_path / "copy", world.home)
    return world


def test_an_older_copy_of_the_history_is_told_everywhere(older: Workspace) -> None:
    assert OLDER in older.do("status").said and "takeback init --fresh" in older.do("status").said
    assert older.do("status", "--json").json["lost"]["since"]
    assert OLDER in older.do("verify", code=5).said
    assert OLDER in older.do("doctor", code=5).said
    assert OLDER in older.do("save").said


def test_an_older_copy_of_the_history_takes_nothing_else_back(older: Workspace) -> None:
    for words in (("undo",), ("redo",)):
        assert OLDER in older.do(*words, code=5).said
    assert not older.has("a")
    older.undo(older.action("agent"))
    assert older.read("a") == "mine", "what is named is meant"


def test_what_is_recorded_after_it_does_not_hide_it(older: Workspace) -> None:
    for name in ("c", "d", "e"):
        assert OLDER in older.agent(f"touch {name}").said
    assert OLDER in older.do("verify", code=5).said
    older.do("init", "--fresh")
    assert OLDER not in older.do("status").said
    older.do("verify")
    older.undo()
    assert not older.has("e")
    older.agent("touch f")
    assert OLDER not in older.do("status").said


def test_a_note_that_is_behind_is_normal(world: Workspace) -> None:
    """A power cut, or a kill, comes before what was recorded is noted elsewhere."""
    (note,) = environment.witness_folder().glob("*.json")
    before = note.read_bytes()
    world.human("b", "mine")
    world.agent("rm b")
    assert note.read_bytes() != before
    note.write_bytes(before)
    world.do("verify")
    assert OLDER not in world.do("status").said


def test_only_what_survives_a_power_cut_is_noted(world: Workspace) -> None:
    with open_workspace(world.root, home=world.home, watching=False) as tb:
        tb.parts.journal.append([e.WorkspaceBegan("x", "1")], stream=ids.WORKSPACE)
        sure = tb.parts.journal.head()
        tb.parts.journal.append([e.WorkspaceBegan("y", "1")], stream=ids.WORKSPACE, durable=False)
        assert tb.parts.journal.durable_head() == sure
