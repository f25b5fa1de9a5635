"""A daemon that dies, hangs or is full in the middle of an event: nothing is lost, and the agent gets an answer."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from takeback.core.lifecycle import Life
from takeback.daemon import client, control
from takeback.storage.state.registry import Registry
from takeback.testing import crash
from takeback.workspace.opening import open_workspace
from tests.world.cli import Workspace
from tests.world.picture import picture

from .agent import WAIT_S, Agent

POINTS = [
    "action-began",
    "action-ending",
    "action-ended",
    "files-marked",
    "call-recorded",
    "journal-committed",
]
MORE_POINTS = ["journal-before-begin", "journal-inside", "journal-anchored", "disk-sync", "disk-write"]


@contextmanager
def dying_daemon(world: Workspace, point: str, nth: int) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon that kills itself at a crash point, which may come before it answers."""
    words = ["-m", "takeback.testing.crash", point, str(nth), "--", "takeback.daemon.main:main"]
    env = crash.child_environment() | {"TAKEBACK_HOME": str(world.home)}
    with subprocess.Popen([sys.executable, *words], env=env) as process:
        deadline = time.monotonic() + WAIT_S
        while process.poll() is None and control.status(world.home) is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("point, nth", [(point, 1) for point in POINTS])
def test_a_daemon_that_is_killed_loses_nothing(point: str, nth: int, agent: Agent, world: Workspace) -> None:
    killed_at(point, nth, agent, world)


@pytest.mark.sweep
@pytest.mark.parametrize("nth", range(1, 8))
@pytest.mark.parametrize("point", [*POINTS, *MORE_POINTS])
def test_wherever_a_daemon_is_killed(point: str, nth: int, agent: Agent, world: Workspace) -> None:
    killed_at(point, nth, agent, world)


def killed_at(point: str, nth: int, agent: Agent, world: Workspace) -> None:
    before, agent.trusting = picture(os.fsencode(world.root)), True
    with dying_daemon(world, point, nth) as dying:
        agent.bash("echo more >> a.txt; rm -r sub")
        agent.bash("echo x > new.txt")
        if point in POINTS and nth == 1:
            assert dying.wait(WAIT_S) == crash.KILLED
    with open_workspace(world.root, home=world.home, watching=False) as opened:
        (run,) = opened.history.runs.values()
        calls = [opened.history.actions[id] for id in run.actions]
        assert [call.life for call in calls] == [Life.DONE, Life.DONE], "each call once, with its end"
        assert not any(change.in_doubt or change.shared_with for call in calls for change in call.changes)
        assert opened.undo(run.id).verdict == "clean"
    assert picture(os.fsencode(world.root)) == before


IMPATIENT = (
    "from takeback.daemon import client; client.ANSWER_WAIT_S = 0.5; import sys; sys.exit(client.main())"
)


def tell_impatiently(agent: Agent, data: bytes) -> subprocess.CompletedProcess[bytes]:
    """As always, but it waits for an answer for a moment only."""
    words = [sys.executable, "-c", IMPATIENT, "claude-code"]
    return subprocess.run(
        words, input=data, env=agent.environment(), cwd=agent.world.root, capture_output=True, timeout=WAIT_S
    )


def test_a_daemon_that_hangs_is_not_waited_for(agent: Agent, world: Workspace) -> None:
    agent.bash("true")
    pid = agent.daemon()
    os.kill(pid, signal.SIGSTOP)
    try:
        begin = agent.call("PreToolUse", "Bash", command="rm a.txt")
        assert tell_impatiently(agent, begin).stdout == b""
        (world.root / "a.txt").unlink()
        tell_impatiently(agent, agent.call("PostToolUse", "Bash", again=True, command="rm a.txt"))
        world.undo()
        assert (world.root / "a.txt").exists()
    finally:
        os.kill(pid, signal.SIGCONT)
    # What it was told late, it does not record: whoever asked has gone.
    agent.bash("true")
    with open_workspace(world.root, home=world.home, watching=False) as opened:
        assert len(opened.history.actions) == 4  # three calls, and what was taken back
        assert not opened.history.open_actions()


def test_one_that_hangs_with_the_lock_is_told_of(agent: Agent, world: Workspace) -> None:
    agent.bash("true")
    state = Registry(world.home).find(world.root)
    assert state is not None
    fd = os.open(state / "lock", os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        said = agent.tell(agent.call("PreToolUse", "Bash", command="true"))
    finally:
        os.close(fd)
    assert "is working on this workspace" in said.refusal, said
    assert not agent.bash("true").refusal


def test_a_daemon_that_cannot_start_is_done_without(agent: Agent, world: Workspace) -> None:
    world.home.mkdir(mode=0o700)
    (world.home / "daemon.lock").mkdir()
    agent.bash("rm a.txt")
    assert not agent.daemon()
    world.undo()
    assert (world.root / "a.txt").exists()


def test_no_answer_is_better_than_half_of_one() -> None:
    whole = b"0 3 2\noutno"
    for end in range(len(whole)):
        assert client._read(whole[:end]) is None
    assert client._read(whole) == (0, b"out", b"no")
    assert client._read(b"garbage\n") is None


def test_a_link_to_nowhere_is_no_home(tmp_path: Path) -> None:
    assert client.ask(os.fsencode(tmp_path / "nowhere"), b"x") is None
