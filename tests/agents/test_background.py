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
from takeback.agents.event import SILENT, Answer
from takeback.agents.following import Following
from takeback.core.lifecycle import Life
from takeback.core.subjects import Action
from takeback.errors import RunBusy
from takeback.workspace import Workspace
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
    "grandchild": "sh -c '(setsid env -i sh -c \"{0}\" > /dev/null 2>&1 < /dev/null &) &' > /dev/null 2>&1",
    "daemon": f"{sys.executable} ../daemonize.py '{{0}}'",
}


class Client(Agent):
    """An agent that is a process, whose shell commands are run by that process."""

    def __init__(self, project: Path, tb: Workspace, agent: str = "claude-code") -> None:
        super().__init__(agent, project)
        self._tb = tb
        self._go = project.parent / "go"
        os.mkfifo(self._go)
        self._gate = os.open(self._go, os.O_RDWR)
        self.process = subprocess.Popen(
            ["sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=project, text=True
        )

    def tell(self, name: str, **more: Any) -> Answer:
        given = {"hook_event_name": name, "session_id": self.session, "cwd": str(self.project)}
        event = dialect(self.agent).read(json.dumps(given | {"prompt_id": self.turn} | more).encode(), {})
        Following(self.agent, self._tb, pid=self.process.pid).tell(event)
        return SILENT

    def run(self, command: str, call: str) -> Action:
        """A whole call of its shell."""
        self.shell(command, call)
        assert self.process.stdin is not None and self.process.stdout is not None
        (self.project.parent / "line").write_text(command)
        self.process.stdin.write("sh ../line; echo over\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "over\n"
        self.ran(command, call)
        return next(a for a in self._tb.history.actions.values() if getattr(a.began, "key", "") == call)

    def leave(self, work: str, call: str = "c1", way: str = "job") -> Action:
        """A call that ends at once, and what it leaves behind works when it is let."""
        later = f"read go < {self._go}; {work}"
        return self.run(WAYS[way].format(later), call)

    def let(self, action: Action) -> None:
        """Let it work, and wait until nothing of it lives."""
        os.write(self._gate, b"go\n")
        wait_for(lambda: not self._tb.tracker.living(action.id))

    def close(self) -> None:
        """Whatever waits finds the gate gone."""
        self._go.unlink()
        os.close(self._gate)
        if self.process.poll() is None:
            self.end_process()

    def end_process(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def client(desk: Path, tb: Workspace) -> Iterator[Client]:
    (desk / "src").mkdir()
    (desk / "src" / "main.py").write_text("work of months\n")
    (desk.parent / "daemonize.py").write_text(DAEMON)
    made = Client(desk, tb)
    made.prompt("go", "p1")
    yield made
    made.close()


def outside(tb: Workspace) -> list[Action]:
    return [action for action in tb.history.actions.values() if action.kind == "outside"]


@pytest.mark.parametrize("way", WAYS)
def test_what_a_call_left_behind_is_taken_back_with_it(
    way: str, client: Client, desk: Path, tb: Workspace
) -> None:
    action = client.leave(f"rm -rf {desk}/src", way=way)
    assert action.life is Life.BACKGROUND
    with pytest.raises(RunBusy, match="still has processes running") as busy:
        tb.undo(action.id)
    assert f"kill {' '.join(map(str, tb.tracker.living(action.id)))}" in busy.value.hint
    client.let(action)
    assert not (desk / "src").exists()
    report = tb.undo()
    assert (report.verdict, outside(tb)) == ("clean", [])
    assert (desk / "src" / "main.py").read_text() == "work of months\n"
    assert tb.history.actions[action.id].life is Life.DONE
