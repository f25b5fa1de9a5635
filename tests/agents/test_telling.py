"""After an undo the agent is told, once, what was taken back, at the next event that can carry it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from takeback.agents import rollback_news
from takeback.workspace.workspace import Workspace
from tests.world.cli import environment

from .driving import AGENTS, Agent, context


def worked(agent: str, desk: Path) -> Agent:
    client = Agent(agent, desk)
    client.prompt("go", "p1")
    client.write("app.py", "print('two')\n")
    client.write("notes.tmp", "notes\n")
    client.stop()
    return client


@pytest.mark.parametrize("agent", AGENTS)
def test_it_is_told_once_at_the_next_event_that_can_carry_it(agent: str, desk: Path, tb: Workspace) -> None:
    client = worked(agent, desk)
    tb.undo(*tb.history.runs)
    heard = [
        client.prompt("go on", "p2"),
        client.pre("Tool", {"n": 1}, "x"),
        client.post("Tool", {"n": 1}, "x"),
    ]
    heard += [client.pre("Tool", {"n": 2}, "y"), client.post("Tool", {"n": 2}, "y")]
    told = [context(answer) for answer in heard if context(answer)]
    (text,) = told
    assert text.startswith("The user took back what you did: app.py is as before ")
    assert "notes.tmp no longer exists" in text
    assert text.endswith(rollback_news.READ_AGAIN)


def test_a_redo_and_a_restore_are_told_too(desk: Path, tb: Workspace) -> None:
    saved = tb.save("before")
    client = worked("claude-code", desk)
    tb.undo(*tb.history.runs)
    assert "took back" in context(client.prompt("one", "p2"))
    tb.redo()
    text = context(client.prompt("two", "p3"))
    assert "brought back" in text and "app.py" in text and "again as you had left it" in text
    tb.restore(saved)
    text = context(client.prompt("three", "p4"))
    assert "restored the workspace" in text and "notes.tmp no longer exists" in text
    assert context(client.prompt("four", "p5")) == ""


def test_it_is_told_where_the_session_is_resumed(desk: Path, tb: Workspace) -> None:
    client = worked("claude-code", desk)
    client.end()
    tb.undo(*tb.history.runs)
    assert "took back" in context(client.tell("SessionStart", source="resume"))
    assert context(client.prompt("go on", "p2")) == ""


def test_others_are_not_told(desk: Path, tb: Workspace) -> None:
    client = worked("claude-code", desk)
    helper = {"agent_id": "a1", "agent_type": "Explore"}
    client.write("by-helper", "x\n", **helper)
    tb.undo()
    other = Agent("claude-code", desk, "session-2")
    assert context(other.prompt("hello", "q1")) == ""
    assert context(other.pre("Read", {}, "o1")) == ""
    assert "by-helper" in context(client.pre("Read", {}, "h1", **helper))
    assert "by-helper" in context(client.prompt("go on", "p2")), "the agent itself answers for its subagents"
    tb.undo(*tb.history.runs)
    assert context(client.pre("Read", {}, "h2", **helper)) == ""
    assert "app.py" in context(client.prompt("and now?", "p3"))


def test_what_is_told_is_bounded(desk: Path, tb: Workspace) -> None:
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    args = {"command": "make many"}
    client.pre("Bash", args, "c1")
    for number in range(200):
        (desk / f"{number}-{'long' * 30}").write_text("x")
    (desk / "two\nlines").write_text("x")
    client.post("Bash", args, "c1")
    for _ in range(10):
        tb.undo(*tb.history.runs)
        tb.redo()
    text = context(client.prompt("go on", "p2"))
    assert len(text) <= rollback_news.CHARS_MAX + 100
    assert "\n" not in text
    assert text.count("The user") == 1, "each path once, as it is now"
    assert "again as you had left it" in text


def test_however_often_it_went_to_and_fro_each_path_is_told_as_it_is(desk: Path, tb: Workspace) -> None:
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    for number in range(8):
        client.write(f"made-{number}", "x\n")
    actions = list(tb.history.actions)
    for id in actions:
        tb.undo(id)
    tb.redo()
    tb.undo(actions[-1])
    tb.redo()
    text = context(client.prompt("go on", "p2"))
    assert text.count("made-7") == 1 and "made-7 is again as you had left it" in text
    gone = text.partition("brought back")[0]
    assert all(gone.count(f"made-{number}") == 1 for number in range(7)), text
    assert len(text) < rollback_news.CHARS_MAX


def test_an_answer_that_is_lost_is_given_again(desk: Path, tb: Workspace) -> None:
    """The hook is killed after it noted what it tells. The client tells the same event to another hook."""
    client = worked("claude-code", desk)
    tb.undo(*tb.history.runs)
    given = {"hook_event_name": "UserPromptSubmit", "session_id": client.session, "cwd": str(desk)}
    given |= {"prompt_id": "p2", "prompt": "go on"}
    code = (
        "import os, signal, sys; from takeback.system import crash_points; from takeback.agents import once\n"
        f"die = lambda name: name == {rollback_news.TOLD!r} and os.kill(os.getpid(), signal.SIGKILL)\n"
        "crash_points.set_hook(die)\n"
        "once.main(['claude-code'])"
    )
    killed = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(given).encode(),
        env=environment(tb.state.parent.parent),
        cwd=desk,
    )
    assert killed.returncode == -signal.SIGKILL
    assert (tb.state / rollback_news.FILE).stat().st_mode & 0o777 == 0o600
    assert "took back" in context(client.prompt("go on", "p2"))
    assert context(client.pre("Read", {}, "c9")) == ""


def test_a_damaged_note_only_tells_again(desk: Path, tb: Workspace) -> None:
    client = worked("claude-code", desk)
    tb.undo(*tb.history.runs)
    assert context(client.prompt("one", "p2"))
    for damaged in (b"", b"{}", b"[1]", b'{"a": 1}'):
        (tb.state / rollback_news.FILE).write_bytes(damaged)
        assert "took back" in context(client.prompt("again", os.urandom(4).hex()))
