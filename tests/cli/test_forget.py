"""`takeback forget` as a user types it: what it asks, says and refuses; and the history of a whole workspace."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from takeback.testing import crash
from tests.world.cli import REPOSITORY, Workspace

SECRET = "hunter2-SECRET-0815"


@pytest.fixture
def world(tmp_path: Path) -> Workspace:
    made = Workspace.at(tmp_path)
    made.human("a", "mine")
    made.human("env", f"{SECRET}\n")
    made.do("init")
    made.agent("cp env copy; echo more >> env")
    made.agent("rm env copy; echo new > a")
    return made


def found(home: Path) -> list[Path]:
    return [path for path in home.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def test_without_a_terminal_what_is_shared_needs_the_flag(world: Workspace) -> None:
    before = world.do("log", "--json").stdout
    refused = world.do("forget", "env", code=3)
    assert "copy has the same content" in refused.stderr and "takeback forget --yes" in refused.stderr
    shown = world.do("forget", "--preview", "env").stdout
    assert "env   2 contents" in shown and "copy   1 content" in shown
    assert world.do("log", "--json").stdout == before and found(world.home)
    said = world.do("forget", "env", "--yes").stdout
    assert "Forgotten, and recorded that it was." in said and "still has it" not in said
    world.do("gc")
    assert found(world.home) == []
    for words in (["verify"], ["verify", "--all"], ["verify", "--deep"]):
        world.do(*words)
    stopped = world.do("undo", code=3)
    assert "its content was removed with `takeback forget`" in stopped.said
    world.do("undo", "--on-conflict", "keep")
    assert (world.root / "a").read_text() == "mine"
    assert "content-forgotten" in world.do("export").stdout
    assert "nothing to forget" in world.do("forget", "env").stdout


def test_as_json(world: Workspace) -> None:
    world.human("env", f"{SECRET}\n")
    shown = world.do("forget", "--preview", "env", "--json").json
    assert shown["paths"] == [{"path": "env", "contents": 2}] and not shown["done"]
    done = world.do("forget", "env", "--yes", "--json").json
    assert done["done"] and done["shared"] == [{"path": "copy", "contents": 1}]
    assert done["present"] == ["env"] and done["quoted"] == []


def test_a_secret_that_is_still_in_its_file_is_named(world: Workspace) -> None:
    world.human("env", f"{SECRET}\n")
    said = world.do("forget", "env", "--yes").stdout
    assert "still has it, in env" in said and "exclude the path" in said
    assert (world.root / "env").read_text() == f"{SECRET}\n"


def test_what_the_journal_itself_quotes_is_named(world: Workspace) -> None:
    world.do("save", f"the token is {SECRET}")
    assert "does not rewrite it" in world.do("forget", "env", "--yes").stdout


@pytest.mark.parametrize("words", [[], ["--workspace", "env"], ["never-there"], [""], ["--yes", "env", ""]])
def test_wrong_words(world: Workspace, words: list[str]) -> None:
    world.do("forget", *words, code=2)
    assert found(world.home)


def test_an_empty_path_is_never_the_whole_workspace(world: Workspace) -> None:
    """In a script, `"$FILE"` is empty where FILE is not set."""
    for words in (["undo", "--path", ""], ["restore", "c2", "--path", ""]):
        refused = world.do(*words, code=2)
        assert "an empty path" in refused.stderr and world.read("a") == "new\n"


def test_all_content_goes_only_after_a_question(world: Workspace) -> None:
    for path in (".", str(world.root)):
        refused = world.do("forget", path, code=3)
        assert "every file of the workspace" in refused.stderr and "--yes" in refused.stderr
    assert found(world.home)
    world.do("forget", "--preview", ".")
    world.do("forget", "--yes", ".")
    assert found(world.home) == []


def test_an_agent_forgets_nothing(world: Workspace) -> None:
    takeback = f"{sys.executable} -m takeback"
    done = world.agent(f"{takeback} forget a --yes; {takeback} forget --workspace --yes; true")
    assert "an agent cannot forget" in done.stderr and "an agent cannot remove" in done.stderr
    assert "content-forgotten" not in world.do("export").stdout and found(world.home)


# All of it


def test_the_history_of_a_workspace_is_removed_and_the_files_stay(world: Workspace, tmp_path: Path) -> None:
    other = Workspace(tmp_path / "other", world.home)
    other.root.mkdir()
    other.human("b", "theirs")
    other.do("init")
    assert "--yes" in world.do("forget", "--workspace", code=3).stderr
    shown = world.do("forget", "--workspace", "--preview").stdout
    assert str(world.root) in shown and found(world.home)
    world.do("forget", "--workspace", "--yes")
    assert found(world.home) == [] and (world.root / "a").read_text() == "new\n"
    assert [path.name.rpartition("-")[0] for path in world.home.glob("workspaces/*")] == ["other"]
    assert "not protected yet" in world.do("status").stdout
    other.do("verify", "--all")
    world.do("init")
    world.do("verify", "--all")


def test_a_removal_that_was_killed_is_finished(world: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAKEBACK_HOME", str(world.home))
    words = ["takeback", "-C", str(world.root), "forget", "--workspace", "--yes"]
    done = crash.run("workspace-set-aside", 1, words, cwd=REPOSITORY)
    assert done.returncode == crash.KILLED, done.stderr
    assert "not protected yet" in world.do("status").stdout and found(world.home)
    assert "interrupted removal" in world.do("forget", "--workspace", "--yes").stdout
    assert found(world.home) == []


def test_what_is_kept_is_counted_by_its_parts(world: Workspace) -> None:
    sizes = world.do("du", "--json").json
    parts = [sizes[f"{part}_bytes"] for part in ("content", "journal", "index")]
    assert all(parts) and sizes["total_bytes"] == sum(parts)
    assert "total" in world.do("du").stdout
    machine = json.loads(world.run("doctor", "--json").stdout)["machine"]
    (store,) = [one for one in machine if one["check"] == "store"]
    assert "content" in store["said"] and "journal" in store["said"] and "index" in store["said"]
