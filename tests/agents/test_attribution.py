"""Whose a change is, where calls overlap, go on in the background, or are a subagent's: right, or not guessed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from takeback.agents.dialects import dialect
from takeback.agents.event import SILENT, HookAnswer
from takeback.agents.following import Following
from takeback.core.lifecycle import Life
from takeback.errors import ConflictError, RunBusy, UsageError
from takeback.workspace.workspace import Workspace
from tests.world.cli import Workspace as World

from .driving import Agent

HELPER = {"agent_id": "a1", "agent_type": "Explore"}


def test_what_calls_side_by_side_did_is_of_one_of_them(desk: Path, tb: Workspace) -> None:
    client = Agent("codex", desk)
    client.prompt("go", "t1")
    client.shell("make one", "c1")
    client.shell("make two", "c2")
    (desk / "one").write_text("1\n")
    client.ran("make one", "c1")
    (desk / "two").write_text("2\n")
    client.ran("make two", "c2")
    one, two = tb.history.actions.values()
    assert one.changes[-1].shared_with == (two.id,)
    with pytest.raises(ConflictError, match="while both were running"):
        tb.undo(one.id)
    assert (desk / "one").exists()
    # What was done when the other had ended is its own.
    assert tb.undo(two.id, paths=[str(desk / "two")]).verdict in ("clean", "unknown")
    assert tb.undo(one.id, two.id).verdict in ("clean", "unknown")
    assert not (desk / "one").exists()


def test_a_subagent_beside_the_agent_and_its_work_alone(desk: Path, tb: Workspace) -> None:
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    client.write("by-main", "main\n")
    client.write("by-helper", "helper\n", **HELPER)
    client.write("more-by-main", "main\n")
    assert tb.undo(agent="Explore").verdict in ("clean", "unknown")
    assert not (desk / "by-helper").exists()
    assert (desk / "by-main").exists() and (desk / "more-by-main").exists()
    # Of a prompt, or of a file, only what that agent did.
    client.write("by-helper", "again\n", **HELPER)
    (step,) = next(iter(tb.history.runs.values())).steps
    assert tb.undo(step, agent="a1").verdict in ("clean", "unknown")
    assert tb.undo(agent="claude-code", paths=[str(desk / "by-main")]).verdict in ("clean", "unknown")
    assert not (desk / "by-main").exists() and (desk / "more-by-main").exists()
    with pytest.raises(UsageError, match="no agent 'nobody'"):
        tb.undo(agent="nobody")
    with pytest.raises(UsageError, match="exclude each other"):
        tb.undo(to="c1", agent="Explore")


def test_the_end_of_the_prompt_leaves_a_subagents_call_open(desk: Path, tb: Workspace) -> None:
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    args = {"command": "make"}
    client.pre("Bash", args, "h1", **HELPER)
    client.stop()
    (action,) = tb.history.open_actions()
    (desk / "made").write_text("x\n")
    client.tell("SubagentStop", **HELPER)
    assert not tb.history.open_actions()
    assert {str(change.target) for change in tb.history.actions[action.id].changes} >= {"made"}


def test_what_changed_between_calls_is_the_humans(desk: Path, tb: Workspace) -> None:
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    client.write("a", "a\n")
    (desk / "mine").write_text("mine\n")
    client.write("b", "b\n")
    client.stop()
    (desk / "app.py").write_text("my own\n")
    tb.undo(*tb.history.runs)
    assert (desk / "mine").exists() and (desk / "app.py").read_text() == "my own\n"
    assert not (desk / "a").exists() and not (desk / "b").exists()


def in_background(desk: Path) -> Agent:
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    client.shell("make watch", "bg", run_in_background=True)
    client.ran("make watch", "bg", run_in_background=True)
    return client


def test_what_works_on_in_the_background_hides_nothing_and_stops_nobody(desk: Path, tb: Workspace) -> None:
    client = in_background(desk)
    (action,) = tb.history.actions.values()
    assert action.life is Life.BACKGROUND
    client.stop(background_tasks=[{"id": "b1"}])
    # Nobody but it, or the human, did this: so nobody's undo touches it without a word.
    (desk / "built").write_text("built\n")
    client.prompt("more", "p2")
    client.write("a", "a\n")
    (made,) = [c for c in tb.history.actions[action.id].changes if str(c.target) == "built"]
    assert made.in_doubt
    # A call beside it shares what it did.
    with pytest.raises(ConflictError, match="while both were running"):
        tb.undo()
    # It would write over what was put back.
    with pytest.raises(RunBusy, match="at work in the background"):
        tb.undo(action.id)
    notice = "<task-notification>\n<tool-use-id>bg</tool-use-id>\n</task-notification>"
    client.tell("UserPromptSubmit", prompt=notice)
    assert tb.history.actions[action.id].life is Life.DONE
    client.write("b", "b\n")
    assert tb.undo().verdict in ("clean", "unknown")
    assert not (desk / "b").exists()


@pytest.mark.parametrize("told", ["stop", "end"])
def test_what_is_in_the_background_is_over_when_the_client_says_that_nothing_is(
    told: str, desk: Path, tb: Workspace
) -> None:
    client = in_background(desk)
    if told == "stop":
        client.stop(background_tasks=[])
    else:
        client.end()
    assert not tb.history.open_actions(Life.BACKGROUND)
    (desk / "mine").write_text("mine\n")
    other = Agent("claude-code", desk, "session-2")
    other.prompt("go", "q1")
    other.write("a", "a\n")
    assert tb.undo().verdict in ("clean", "unknown")
    assert (desk / "mine").exists()


def test_a_call_that_somebody_else_refused_leaves_nothing_open(desk: Path, tb: Workspace) -> None:
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    client.shell("rm app.py", "c1")
    client.write("a", "a\n")
    first, _ = tb.history.actions.values()
    assert (first.life, first.changes) == (Life.FAILED, ())
    assert "never reported" in first.why
    assert tb.undo().verdict in ("clean", "unknown")


def test_ends_that_come_late_or_without_a_beginning_change_nothing(desk: Path, tb: Workspace) -> None:
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    client.ran("make", "never-begun")
    assert not tb.history.actions
    client.shell("make", "c1")
    client.prompt("stop that", "p2")
    (desk / "late").write_text("late\n")
    said = client.ran("make", "c1").stdout.decode()
    (drift,) = [action.id for action in tb.history.actions.values() if action.kind == "outside"]
    assert "while it was still at work" in said and f"takeback show {drift}" in said
    assert not client.ran("make", "never-begun").stdout
    client.write("a", "a\n")
    # Whose it is cannot be told any more, so it stays.
    tb.undo(*tb.history.runs)
    assert (desk / "late").exists() and not (desk / "a").exists()


def test_a_call_without_an_id_that_is_told_twice_is_one(desk: Path, tb: Workspace) -> None:
    client = Agent("gemini", desk)
    client.prompt("go")
    for _ in range(2):
        client.shell("make", "")
    (desk / "made").write_text("x\n")
    client.ran("make", "")
    assert len(tb.history.actions) == 1 and not tb.history.open_actions()
    client.shell("make", "")
    assert len(tb.history.actions) == 2, "the same once more is another call"


def test_a_subagent_with_a_session_of_its_own_works_for_the_one_that_started_it(
    desk: Path, tb: Workspace
) -> None:
    main = Agent("opencode", desk)
    main.prompt("go", "m1")
    main.pre("task", {"prompt": "help"}, "t1")
    child = Agent("opencode", desk, "child-1")
    child.tell("session.created", parentID=main.session)
    child.prompt("help", "m2")
    child.write("by-child", "x\n")
    child.shell("true", "open")
    child.stop()
    main.post("task", {"prompt": "help"}, "t1")
    assert not tb.history.open_actions()
    (run,) = [run for run in tb.history.runs.values() if run.actions]
    (step,) = run.steps
    assert run.steps[step].name == "go"
    assert tb.undo(step).verdict in ("clean", "unknown")
    assert not (desk / "by-child").exists()
    child.write("by-child", "x\n")
    assert tb.undo(agent="child-1").verdict in ("clean", "unknown")


def test_a_call_that_was_refused_in_the_client_is_over_when_the_human_says_so(
    desk: Path, tb: Workspace
) -> None:
    """No hook tells of a no that was typed into the client before the agent goes on."""
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    client.write("a", "a\n")
    client.shell("rm app.py", "c1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("takeback.engine.rollback.busy.BUSY_WAIT_S", 0.1)
        with pytest.raises(RunBusy) as busy:
            tb.undo()
    run = tb.history.open_actions()[0].stream
    assert f"takeback resume {run}" in busy.value.hint
    assert tb.resume(run) == []
    assert tb.undo().verdict in ("clean", "unknown")
    assert not (desk / "a").exists() and (desk / "app.py").exists()
    # The agent goes on, in another run, and hears of it.
    client.write("b", "b\n")
    assert client.prompt("what now?", "p2").stdout.count(b"took back") == 0, (
        "it was told with the call before"
    )
    assert tb.undo().verdict in ("clean", "unknown")


class Client(Agent):
    """An agent with a process of its own, which may be one of several that go on with the same session."""

    def __init__(self, project: Path, tb: Workspace, pid: int) -> None:
        super().__init__("claude-code", project)
        self._tb, self._pid = tb, pid
        self.turn = "p1"

    def tell(self, name: str, **more: Any) -> HookAnswer:
        given = {"hook_event_name": name, "session_id": self.session, "cwd": str(self.project)}
        event = dialect(self.agent).read(json.dumps(given | {"prompt_id": self.turn} | more).encode(), {})
        Following(self.agent, self._tb, pid=self._pid).tell(event)
        return SILENT


@pytest.fixture
def processes() -> Iterator[tuple[int, int]]:
    started = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
    yield (started[0].pid, started[1].pid)
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize("what", ["call", "prompt", "stop", "end"])
def test_a_session_that_is_open_in_two_terminals(
    what: str, desk: Path, tb: Workspace, processes: tuple[int, int]
) -> None:
    """What one client begins or ends says nothing of the call on which the other is at work."""
    one, other = (Client(desk, tb, pid) for pid in processes)
    one.prompt("make it", "p1")
    one.shell("make", "c1")
    if what == "call":
        other.shell("ls", "d1")
        other.ran("ls", "d1")
    elif what == "prompt":
        other.prompt("and this?", "p2")
    elif what == "stop":
        other.stop()
    else:
        other.end()
    (desk / "made").write_text("made\n")
    one.ran("make", "c1")
    (made,) = [action for action in tb.history.actions.values() if getattr(action.began, "key", "") == "c1"]
    assert (made.life, [str(c.target) for c in made.changes if c.before != c.after]) == (Life.DONE, ["made"])
    assert tb.undo(made.id).verdict in ("clean", "unknown")
    assert not (desk / "made").exists()


def test_what_stops_an_undo_of_one_agent_can_be_taken_back_with_it(desk: Path, tb: Workspace) -> None:
    """Two at once: whose it is, nobody can tell. The way out is to take back both, and it is offered."""
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    helper = {"agent_id": "a1", "agent_type": "general-purpose"}
    client.shell("make main", "m1")
    client.pre("Write", {"file_path": str(desk / "helper.txt")}, "h1", **helper)
    (desk / "helper.txt.tmp.1").write_text("x\n")
    tb.save("what is there now is seen")
    (desk / "helper.txt.tmp.1").rename(desk / "helper.txt")
    client.post("Write", {"file_path": str(desk / "helper.txt")}, "h1", **helper)
    client.ran("make main", "m1")
    client.stop()
    world = World(desk, tb.state.parent.parent)
    assert "claude-code:general-purpose" in world.run("log").stdout
    stopped = world.run("undo", "--agent", "claude-code:general-purpose")
    assert stopped.code == 3
    assert "helper.txt:" in stopped.stderr and "helper.txt.tmp" not in stopped.stderr
    assert "yours" not in stopped.stderr and "keep theirs and take back the rest" in stopped.stderr
    (line,) = [line for line in stopped.stderr.splitlines() if "also take back what the others did" in line]
    done = world.run(*line.split("takeback ")[1].split())
    assert done.code == 0 and not (desk / "helper.txt").exists()


@pytest.mark.parametrize("looked", [False, True])
@pytest.mark.parametrize("then", ["prompt", "call", "stop", "end"])
@pytest.mark.parametrize("command", ["rm app.py", "git push"])
def test_what_the_human_does_after_saying_no_is_not_taken_back(
    command: str, then: str, looked: bool, desk: Path, tb: Workspace
) -> None:
    """A call that is refused in the client is begun and never ended. Until the next event the human works."""
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    client.shell(command, "c1")
    (desk / "app.py").write_text("print('mine')\n")
    if looked:  # as anybody may, while the call counts as open
        tb.save("mine")
    if then == "prompt":
        client.prompt("not that", "p2")
    elif then == "call":
        client.shell("ls", "c2")
        client.ran("ls", "c2")
    elif then == "stop":
        client.stop()
    else:
        client.end()
    with pytest.raises(ConflictError, match="in doubt who changed it"):
        tb.undo(next(iter(tb.history.actions)))
    assert (desk / "app.py").read_text() == "print('mine')\n"
