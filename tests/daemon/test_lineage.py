"""Whose an event is: the action around the agent, and the process that is the agent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from takeback.agents.agent_process import leader_of
from takeback.core import events as e
from takeback.core.lifecycle import Life
from takeback.workspace.opening import open_workspace
from tests.world.cli import Workspace, environment

from . import agent as program
from .agent import WAIT_S

HOOKS = pytest.mark.parametrize("how", ["daemon", "once"])


def process(world: Workspace, how: str, *scenes: list[Any]) -> subprocess.Popen[bytes]:
    """An agent in a process of its own, which is called like the real one."""
    return subprocess.Popen(
        [sys.executable, str(program.__file__), how, json.dumps(scenes)],
        env=environment(world.home) | {"CLAUDE_PROJECT_DIR": str(world.root)},
        cwd=world.root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + WAIT_S
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)


@HOOKS
def test_under_takeback_run_calls_are_inside_of_the_command(how: str, world: Workspace) -> None:
    scenes = [["bash", "echo 1 > one"], ["sh", "echo 2 > two"], ["bash", "echo 3 > three"]]
    done = world.run("run", "--", sys.executable, program.__file__, how, json.dumps(scenes))
    assert done.code == 0, done
    with open_workspace(world.root, home=world.home, watching=False) as opened:
        around, *calls = opened.history.actions.values()
        assert [call.began.parent for call in calls if isinstance(call.began, e.ActionBegan)] == [
            around.id
        ] * 2
        changes = [*around.changes, *(change for call in calls for change in call.changes)]
        assert not any(change.shared_with or change.in_doubt for change in changes)
        assert "two" in [change.target.name for change in around.changes]
        assert around.life is Life.DONE, "the daemon is no process of the command"


@HOOKS
def test_the_calls_of_an_agent_that_died_are_settled(how: str, world: Workspace) -> None:
    with process(world, how, ["begin", "rm -r sub"], ["wait", ""]) as dying:
        wait_for(world.root / "waiting")
        with open_workspace(world.root, home=world.home, watching=False) as opened:
            (run,) = opened.history.runs.values()
            assert run.began.process is not None and run.began.process.pid == dying.pid
            opened.recover()
            assert opened.history.open_actions(), "while the agent lives nothing of it is settled"
        dying.kill()
        dying.wait()
    with open_workspace(world.root, home=world.home, watching=False) as opened:
        opened.recover()
        (run,) = opened.history.runs.values()
        assert (run.life, opened.history.open_actions()) == (Life.STOPPED, [])


@HOOKS
def test_an_agent_cannot_allow_itself(how: str, world: Workspace) -> None:
    world.human("takeback.toml", "[rules.tools]\nask = ['Bash']\n")
    takeback = f"{sys.executable} -m takeback"
    scenes = [["begin", "true"], ["sh", f"{takeback} approve p3 > said 2>&1; echo $? > code"]]
    with process(world, how, *scenes) as asking:
        assert asking.wait(WAIT_S) == 0
    assert (world.root / "code").read_text() == "3\n", (world.root / "said").read_text()
    assert "an agent cannot approve its own request" in (world.root / "said").read_text()


OUTER = """
import subprocess, sys
open("/proc/self/comm", "w").write(sys.argv[1])
subprocess.run(sys.argv[2:], check=True)
"""
INNER = "import os, time; print(os.getppid(), flush=True); time.sleep(60)"


@pytest.mark.parametrize(
    "called, through, is_found",
    [
        ("claude", (), True),
        ("claude-code", ("sh", "-c", '"$@"; true', "sh"), True),
        ("claudette", (), False),
        ("sh", (), False),
    ],
)
def test_the_agent_is_found_by_its_name(called: str, through: Sequence[str], is_found: bool) -> None:
    words = [sys.executable, "-c", OUTER, called, *through, sys.executable, "-c", INNER]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as outer:
        assert outer.stdout is not None
        try:
            assert leader_of("claude-code", int(outer.stdout.readline())) == (outer.pid if is_found else 0)
        finally:
            os.killpg(outer.pid, signal.SIGKILL)


def test_where_there_is_no_agent_none_is_named() -> None:
    assert (
        leader_of("claude-code", 1) == leader_of("nobody", os.getpid()) == leader_of("codex", 2**22 + 1) == 0
    )
