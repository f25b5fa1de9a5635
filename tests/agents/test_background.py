"""What a call leaves behind stays that call's, however it detached."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from takeback.agents.dialects import dialect
from takeback.agents.event import SILENT, HookAnswer
from takeback.agents.following import Following
from takeback.core.entities import RecordedAction
from takeback.core.lifecycle import Life
from takeback.errors import ConflictError, RunBusy
from takeback.workspace.workspace import Workspace
from tests.cli.processes import wait_for

from .driving import Agent

DAEMON = """
import os, sys
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.closerange(0, 256)
os.chdir("/")
os.environ.clear()
os.execv("/bin/sh", ["sh", "-c", sys.argv[1]])
"""

WAYS = {
    "job": "({0}) > /dev/null 2>&1 &",
    "nohup": "nohup sh -c '{0}' > /dev/null 2>&1 &",
    "setsid": "setsid sh -c '{0}' > /dev/null 2>&1 < /dev/null &",
    "no environment": "env -i setsid sh -c '{0}' > /dev/null 2>&1 < /dev/null &",
    "another brand": (
        "bash -c 'ulimit -x 0; exec env -i setsid sh -c \"{0}\"' > /dev/null 2>&1 < /dev/null &"
    ),
    "grandchild": "sh -c '(setsid env -i sh -c \"{0}\" > /dev/null 2>&1 < /dev/null &) &' > /dev/null 2>&1",
    "daemon": f"{sys.executable} ../daemonize.py '{{0}}'",
}


class Client(Agent):
    """An agent that is a process, whose shell commands are run by that process."""

    def __init__(self, project: Path, tb: Workspace, agent: str = "claude-code") -> None:
        super().__init__(agent, project)
        self._tb = tb
        self.go = project.parent / "go"
        os.mkfifo(self.go)
        self._gate = os.open(self.go, os.O_RDWR)
        self.process = subprocess.Popen(
            ["sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=project, text=True
        )

    def tell(self, name: str, **more: Any) -> HookAnswer:
        given = {"hook_event_name": name, "session_id": self.session, "cwd": str(self.project)}
        event = dialect(self.agent).read(json.dumps(given | {"prompt_id": self.turn} | more).encode(), {})
        Following(self.agent, self._tb, pid=self.process.pid).tell(event)
        return SILENT

    def run(self, command: str, call: str) -> RecordedAction:
        """A whole call of its shell."""
        self.shell(command, call)
        (self.project.parent / "line").write_text(command)
        self.type("sh ../line")
        self.ran(command, call)
        return next(a for a in self._tb.history.actions.values() if getattr(a.began, "key", "") == call)

    def type(self, command: str) -> None:
        """Have its process run something."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{command}\necho over\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "over\n"

    def leave(self, work: str, call: str = "c1", way: str = "job") -> RecordedAction:
        """A call that ends at once, and what it leaves behind works when it is let."""
        return self.run(WAYS[way].format(self.later(work)), call)

    def later(self, work: str) -> str:
        return f"read go < {self.go}; {work}"

    def let(self, action: RecordedAction) -> None:
        """Let it work, and wait until nothing of it lives."""
        os.write(self._gate, b"go\n")
        wait_for(lambda: not self._tb.parts.tracker.living(action.id))

    def close(self) -> None:
        """Whatever waits finds the gate gone."""
        self.go.unlink()
        os.close(self._gate)
        if self.process.poll() is None:
            self.end_process()

    def end_process(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def client(request: pytest.FixtureRequest, desk: Path, tb: Workspace) -> Iterator[Client]:
    (desk / "src").mkdir()
    (desk / "src" / "main.py").write_text("work of months\n")
    (desk.parent / "daemonize.py").write_text(DAEMON)
    made = Client(desk, tb, getattr(request, "param", "claude-code"))
    made.prompt("go", "p1")
    yield made
    made.close()


def outside(tb: Workspace) -> list[RecordedAction]:
    return [action for action in tb.history.actions.values() if action.kind == "outside"]


@pytest.mark.parametrize("way", WAYS)
def test_what_a_call_left_behind_is_taken_back_with_it(
    way: str, client: Client, desk: Path, tb: Workspace
) -> None:
    action = client.leave(f"rm -rf {desk}/src", way=way)
    assert action.life is Life.BACKGROUND
    with pytest.raises(RunBusy, match="still has processes running") as busy:
        tb.undo(action.id)
    assert f"kill {' '.join(map(str, tb.parts.tracker.living(action.id)))}" in busy.value.hint
    client.let(action)
    assert not (desk / "src").exists()
    report = tb.undo()
    assert (report.verdict, outside(tb)) == ("unknown" if way == "daemon" else "clean", [])
    assert (desk / "src" / "main.py").read_text() == "work of months\n"
    assert tb.history.actions[action.id].life is Life.DONE


def test_what_it_wrote_beside_a_human_is_no_reason_to_guess(
    client: Client, desk: Path, tb: Workspace
) -> None:
    """A human may have written at the same time. So the undo stops, and says what it would take."""
    action = client.leave("echo bad > app.py; rm old.txt")
    client.let(action)
    with pytest.raises(ConflictError, match="in doubt who changed it"):
        tb.undo(action.id)
    assert (desk / "app.py").read_text() == "bad\n"
    assert tb.undo(action.id, on_conflict="overwrite").verdict == "clean"
    assert (desk / "app.py").read_text() == "print('one')\n" and (desk / "old.txt").exists()


def test_a_call_beside_it_shares_what_changed(client: Client, desk: Path, tb: Workspace) -> None:
    action = client.leave("echo new > new.txt")
    client.shell("make", "c2")
    client.let(action)
    client.ran("make", "c2")
    (other,) = [a for a in tb.history.actions.values() if getattr(a.began, "key", "") == "c2"]
    (change,) = [c for c in (*action.changes, *other.changes) if str(c.target) == "new.txt"]
    assert change.shared_with and not change.in_doubt
    with pytest.raises(ConflictError, match="while both were running"):
        tb.undo(other.id)
    assert tb.undo(action.id, other.id).verdict == "unknown"
    assert not (desk / "new.txt").exists()


def test_what_is_changed_after_its_end_is_the_humans(client: Client, desk: Path, tb: Workspace) -> None:
    action = client.leave("rm -rf src")
    client.let(action)
    client.stop()
    tb.save("a look after its end")
    (desk / "app.py").write_text("mine\n")
    assert tb.undo(action.id).verdict == "clean"
    assert (desk / "app.py").read_text() == "mine\n" and (desk / "src").exists()


@pytest.mark.parametrize("how", ["stop", "end", "killed"])
def test_it_outlives_the_turn_the_session_and_the_agent(
    how: str, client: Client, desk: Path, tb: Workspace
) -> None:
    action = client.leave(f"rm -rf {desk}/src", way="no environment")
    if how == "stop":
        client.stop(background_tasks=[])
    elif how == "end":
        client.end()
    else:
        client.process.kill()
        client.end_process()
    tb.save("somebody looks")
    assert tb.history.actions[action.id].life is Life.BACKGROUND
    client.let(action)
    assert tb.undo(action.stream).verdict == "clean"
    assert (desk / "src").exists() and not outside(tb)


def test_a_call_whose_end_was_never_told_keeps_what_it_left(
    client: Client, desk: Path, tb: Workspace
) -> None:
    client.shell("make", "c1")
    client.type(f"({WAYS['setsid'].format(client.later(f'rm -rf {desk}/src'))})")
    client.end()
    (action,) = tb.history.open_actions(Life.BACKGROUND)
    client.let(action)
    assert tb.undo(action.stream).verdict == "unknown"
    assert (desk / "src").exists() and not outside(tb)


@pytest.mark.parametrize("client", ["codex"], indirect=True)
def test_calls_side_by_side_find_what_either_left(client: Client, desk: Path, tb: Workspace) -> None:
    """What is started for the first one after the second one began carries the brand of the second."""
    client.shell("make one", "c1")
    client.shell("make two", "c2")
    client.type(f"({WAYS['setsid'].format(client.later(f'rm -rf {desk}/src'))})")
    client.ran("make one", "c1")
    client.ran("make two", "c2")
    one, two = tb.history.open_actions(Life.BACKGROUND)
    client.let(one)
    assert tb.undo(one.id, two.id).verdict == "unknown"
    assert (desk / "src").exists() and not outside(tb)


def test_what_the_agent_itself_holds_is_no_call_in_the_background(
    client: Client, desk: Path, tb: Workspace
) -> None:
    """A server of tools, or a language server, which the agent started meanwhile."""
    client.shell("make", "c1")
    client.type(f"sh -c 'read go < {client.go}' &")
    client.ran("make", "c1")
    assert not tb.history.open_actions(Life.BACKGROUND)


def test_a_call_that_failed_and_left_something(client: Client, desk: Path, tb: Workspace) -> None:
    client.shell("make", "c1")
    client.type(f"({WAYS['setsid'].format(client.later(f'rm -rf {desk}/src'))})")
    client.tell("PostToolUseFailure", **client._call("Bash", {"command": "make"}, "c1"), error="exit 2")
    (action,) = tb.history.open_actions(Life.BACKGROUND)
    client.let(action)
    assert tb.undo().verdict == "unknown"
    settled = tb.history.actions[action.id]
    assert (settled.life, settled.why) == (Life.FAILED, "exit 2")
    assert (desk / "src").exists()
