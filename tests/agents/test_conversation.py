"""After an undo the real Claude Code hears of it, and its conversation can go on from before what was taken back."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from takeback.agents.fork_conversation import forks
from takeback.workspace.workspace import Workspace
from tests.world.cli import Workspace as World

from . import clients, stories
from .driving import Agent
from .protection import protected

pytestmark = pytest.mark.timeout(900)  # the first time, hundreds of megabytes are fetched


def transcribed(client: Agent, *entries: Any) -> Path:
    path = client.project / "../transcript.jsonl"
    path.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    return path


def test_the_report_names_the_place_before_the_first_call_that_was_taken_back(
    desk: Path, tb: Workspace
) -> None:
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    client.write("a", "a\n")
    client.write("b", "b\n")
    asked = {"content": [{"type": "tool_use", "id": "call-2"}]}
    transcript = transcribed(
        client,
        ["nothing of ours: call-2"],
        {"uuid": "u1", "parentUuid": "u0", "message": {"content": [{"type": "tool_use", "id": "call-1"}]}},
        {"uuid": "u2", "parentUuid": "u1", "message": "call-2"},
        {"uuid": "u3", "parentUuid": "u2", "message": asked},
    )
    before = transcript.read_bytes()
    world = World(desk, tb.state.parent.parent)
    said = world.run("undo").stdout
    assert f"--resume {client.session} --fork-session --resume-session-at u2" in said
    assert "The conversation from before it, in a copy:" in said
    (fork,) = forks(tb.history, list(tb.history.actions))
    assert (fork.command[-1], fork.exact) == ("u0", True)
    assert transcript.read_bytes() == before
    # Without a transcript that tells the place, all of the conversation is forked.
    for damage in (b"{call-1", b"\xff call-1\n", None):
        transcript.write_bytes(damage) if damage else transcript.unlink()
        (fork,) = forks(tb.history, list(tb.history.actions))
        assert (fork.command, fork.exact) == (("claude", "--resume", client.session, "--fork-session"), False)


def test_other_agents_have_no_such_thing(desk: Path, tb: Workspace) -> None:
    client = Agent("codex", desk)
    client.prompt("go", "p1")
    client.write("a", "a\n")
    data = World(desk, tb.state.parent.parent).run("undo", "--json").json
    assert "conversations" not in data


def test_a_client_that_is_not_there_leaves_the_undo_as_it_is(desk: Path, tb: Workspace) -> None:
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    client.write("a", "a\n")
    world = World(desk, tb.state.parent.parent)
    python = str(Path(sys.executable).parent)
    done = world.run("undo", "--conversation", env={"PATH": python})
    assert done.code == 4
    assert "could not be forked" in done.stderr and "stays taken back" in done.stderr
    assert not (desk / "a").exists()


def test_claude_code_hears_of_it_and_forks(tmp_path: Path) -> None:
    tools = [stories.tool("Bash", command=f"echo > {name}.txt", description="w") for name in ("one", "two")]
    script = {
        "work": [stories.turn(tool) for tool in tools],
        "more": [stories.turn(text="More.")],
        "eager": [stories.turn(tools[1]), stories.turn(text="Done again.")],
    }
    with protected(tmp_path, "claude-code") as agent, clients.model(tmp_path, script) as model:
        desk, world = agent.desk, agent.world
        said = json.loads(clients.claude_code(model, desk, "[scene work] go").stdout)
        session = said["session_id"]
        done = world.run("undo", "--json")
        assert (done.code, done.json["verdict"]) == (0, "clean")
        assert not (desk.project / "two.txt").exists()
        clients.claude_code(model, desk, "[scene more] go on", "--resume", session)
        heard = json.dumps(model.requests()[-1]["body"])
        assert "two.txt no longer exists" in heard

        # As the report says, with the program that is called claude there.
        (talk,) = done.json["conversations"]
        assert talk["exact"]
        _claude, _print, saying, *options = talk["command"]
        assert saying.endswith("Do nothing now; wait for the user.")
        # However eager the model is, and whatever it may do otherwise: this question undoes no undo.
        clients.claude_code(model, desk, f"[scene eager] {saying}", *options)
        assert not (desk.project / "two.txt").exists()
        forked = json.loads(clients.claude_code(model, desk, "[scene more] again", *options).stdout)
        assert forked["session_id"] != session
        remembered = json.dumps(model.requests()[-1]["body"]["messages"])
        assert "one.txt" in remembered and "two.txt" not in remembered
