"""A real client under protection: what it did, by whichever tool, is taken back; what the human did stays."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from takeback.agents.settings import apply
from takeback.opening import open_workspace
from tests.world.cli import Workspace
from tests.world.picture import Picture, picture

from . import clients, installing, stories

pytestmark = pytest.mark.timeout(900)  # the first time, hundreds of megabytes are fetched

FLAGS = {"codex": ("--enable", "multi_agent_v2")}


def desk_with_hook(folder: Path, agent: str) -> clients.Desk:
    """A project under protection, as `takeback install` would leave it."""
    desk = clients.Desk.at(folder)
    stories.begin(desk.project)
    program = folder / "bin/takeback-hook"
    program.parent.mkdir()
    run = shlex.join([sys.executable, "-m", "takeback.agents.once"])
    program.write_text(f'#!/bin/sh\nPYTHONPATH={installing.ROOT / "src"} PYTHONSAFEPATH=1 exec {run} "$@"\n')
    program.chmod(0o755)
    desk.more["TAKEBACK_HOME"] = str(folder / "state")
    # Codex and Gemini CLI trust what stands in the user's own settings.
    place = apply.place(agent, project=desk.project, home=desk.home, user=agent in ("codex", "gemini"))
    apply.installing(agent, place, f"{program} {agent}").make()
    return desk


def seen(project: Path) -> Picture:
    return picture(os.fsencode(project))


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_a_session_is_taken_back_call_by_call_prompt_by_prompt_and_whole(agent: str, tmp_path: Path) -> None:
    desk, name = desk_with_hook(tmp_path, agent), agent.replace("-", "_")
    world = Workspace(desk.project, tmp_path / "state")
    before = seen(desk.project)
    with clients.model(tmp_path, getattr(stories, name)(desk.project, tmp_path)) as model:
        client = getattr(clients, name)
        client(model, desk, "[scene work] go", *FLAGS.get(agent, ()))
        after_work = seen(desk.project)
        world.human("mine.txt", "mine\n")
        with_mine = seen(desk.project)
        client(model, desk, "[scene delegate] go", *FLAGS.get(agent, ()))
    assert after_work != before
    assert (desk.project / "main.txt").exists()

    # The last call.
    done = world.run("undo", "--json")
    assert (done.code, done.json["verdict"]) == (0, "clean"), done
    assert not (desk.project / "main.txt").exists()
    assert (desk.project / "helper.txt").exists()

    # One prompt, with what a subagent did for it.
    with open_workspace(desk.project, home=tmp_path / "state", watching=False) as tb:
        first, second = (run for run in tb.history.runs.values())
        (prompt,) = second.steps
        assert tb.undo(prompt).verdict == "clean"
        assert seen(desk.project) == with_mine

        # All of a session. What the human did in between stays.
        assert tb.undo(first.id).verdict == "clean"
        assert {action.life.value for action in tb.history.actions.values()} <= {
            "done",
            "failed",
            "taken back",
        }
    with_mine_only = seen(desk.project)
    assert with_mine_only.pop(b"mine.txt")
    # That the human's file came into the folder shows in the folder's time.
    assert {name for name in before | with_mine_only if before.get(name) != with_mine_only.get(name)} == {
        b"."
    }


@pytest.mark.parametrize("agent", ["gemini", "opencode"])
def test_a_session_of_a_client_from_npm_is_taken_back(agent: str, tmp_path: Path) -> None:
    desk = desk_with_hook(tmp_path, agent)
    before = seen(desk.project)
    with clients.model(tmp_path, getattr(stories, agent)(desk.project, tmp_path)) as model:
        getattr(clients, agent)(model, desk, "[scene work] go")
    assert (desk.project / "notes.md").exists() and not (desk.project / "old.txt").exists()
    with open_workspace(desk.project, home=tmp_path / "state", watching=False) as tb:
        assert tb.undo(*tb.history.runs).verdict == "clean"
    # What opencode itself puts beside its plugins is no tool's work, and stays.
    now = seen(desk.project)
    changed = {name for name in before | now if before.get(name) != now.get(name)}
    assert changed <= {b".opencode", b".opencode/.gitignore"}


def test_what_happened_beside_a_command_in_the_background_is_not_guessed(tmp_path: Path) -> None:
    desk = desk_with_hook(tmp_path, "claude-code")
    world = Workspace(desk.project, tmp_path / "state")
    before = seen(desk.project)
    with clients.model(tmp_path, stories.claude_code(desk.project, tmp_path)) as model:
        clients.claude_code(model, desk, "[scene more] go")
    assert (desk.project / "late.txt").exists()
    # It is of one of two calls, so neither is taken back alone.
    done = world.run("undo", "--json")
    assert done.code == 3, done
    assert "late.txt" in done.said and "while both were running" in done.said, done
    assert (desk.project / "late.txt").exists()
    # With both there is nothing to guess.
    (run,) = {entry["run"] for entry in world.run("log", "--json").json["entries"] if entry.get("run")}
    done = world.run("undo", run, "--json")
    assert (done.code, done.json["verdict"]) == (0, "clean"), done
    assert seen(desk.project) == before
