"""A report names sessions and calls as a person knows them, and only those that it is about."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from takeback.workspace.workspace import Workspace
from tests.world.cli import Workspace as World

from .driving import Agent, context

CALLS = 6


@pytest.fixture
def world(desk: Path, tb: Workspace) -> World:
    return World(desk, tb.state.parent.parent)


@pytest.fixture
def client(desk: Path) -> Agent:
    client = Agent("claude-code", desk)
    client.prompt("write them", "p1")
    for number in range(CALLS):
        client.write(f"file-{number}", "x\n")
    return client


def test_a_session_is_one_thing(client: Agent, tb: Workspace, world: World) -> None:
    (run,) = tb.history.runs
    for more in (["--preview"], []):
        said = world.run("undo", run, *more).stdout
        title = f"session {run} of claude-code ({CALLS} calls)\n"
        assert said.startswith(("Would take back " if more else "Took back ") + title), said


def test_a_prompt_is_one_thing(client: Agent, tb: Workspace, world: World) -> None:
    client.prompt("one more", "p2")
    client.write("last", "x\n")
    (run,) = tb.history.runs
    first = next(iter(tb.history.runs[run].steps))
    said = world.run("undo", first).stdout
    assert said.startswith(f"Took back prompt {first} of session {run} of claude-code ({CALLS} calls)\n"), (
        said
    )


@pytest.mark.parametrize("more", [["--preview"], []])
def test_with_a_path_only_the_calls_that_touched_it_are_named(
    more: list[str], client: Agent, tb: Workspace, world: World
) -> None:
    (run,) = tb.history.runs
    said = world.run("undo", run, "--path", "file-3", *more).stdout
    assert "Write file-3 (" in said.partition("\n")[0] and said.count("Write") == 1, said


def test_a_command_that_is_offered_names_the_session(client: Agent, tb: Workspace, world: World) -> None:
    (run,) = tb.history.runs
    world.human("file-0", "mine\n")
    stopped = world.run("undo", run)
    assert stopped.code == 3 and f"takeback undo {run} --on-conflict keep" in stopped.stderr


def test_the_agent_is_told_what_matters_first(desk: Path, tb: Workspace) -> None:
    for number in range(40):
        (desk / f"node_modules/p{number}").mkdir(parents=True)
        (desk / f"node_modules/p{number}/index.js").write_text("x\n")
    (desk / ".env").write_text("SECRET=1\n")
    client = Agent("claude-code", desk)
    client.prompt("clean up", "p1")
    command = "rm -rf node_modules .env app.py"
    client.shell(command, "c1")
    subprocess.run(command, shell=True, cwd=desk, check=True)
    client.ran(command, "c1")
    tb.undo()
    told = context(client.prompt("go on", "p2"))
    assert told.startswith(
        "The user took back what you did: .env, app.py and node_modules (40 files) are as before "
    )
