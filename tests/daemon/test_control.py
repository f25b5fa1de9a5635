"""`takeback daemon`: what it says, and what it leaves behind."""

from __future__ import annotations

import os
import shlex
import signal
import stat
import subprocess
import threading
import time
from pathlib import Path

import pytest

from takeback.daemon import control, hook_command, log
from takeback.daemon.pool import Pool
from takeback.errors import RunBusy
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace as Opened
from tests.world.cli import Workspace

from .agent import WAIT_S, Agent


def test_it_is_started_shown_and_ended(agent: Agent, world: Workspace) -> None:
    assert "No daemon is running" in world.do("daemon", "status").stdout
    assert world.do("daemon", "status", "--json").json["running"] is False
    started = world.do("daemon", "start", "--json").json
    agent.bash("echo x > x")
    shown = world.do("daemon", "status", "--json").json
    assert (shown["pid"], shown["events"]) == (started["pid"], 2)
    assert [entry["root"] for entry in shown["workspaces"]] == [str(world.root)]
    assert 1e6 < shown["memory_bytes"] < 150e6
    text = world.do("daemon", "status").stdout
    assert str(world.root) in text and f"Process {shown['pid']}" in text
    assert world.do("daemon", "stop", "--json").json == {"stopped": True, "pid": shown["pid"]}
    assert not agent.daemon()
    assert "No daemon is running" in world.do("daemon", "stop").stdout


def test_one_that_hangs_is_ended_too(world: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "ANSWER_WAIT_S", 0.2)
    monkeypatch.setattr(control, "STOP_WAIT_S", 0.5)
    pid = control.start(world.home).pid
    os.kill(pid, signal.SIGSTOP)
    assert control.stop(world.home) == pid
    assert not control.holder(world.home)


def test_a_polite_signal_ends_it(agent: Agent, world: Workspace) -> None:
    agent.bash("true")
    pid = agent.daemon()
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + WAIT_S
    while agent.daemon() == pid:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert not agent.bash("true").refusal
    assert agent.daemon() not in (0, pid)


def test_the_log_is_bounded_and_private(tmp_path: Path) -> None:
    logger = log.begin(tmp_path)
    try:
        for _ in range(3_500):
            logger.info("password=hunter2 %s", "x" * 100)
    finally:
        for handler in list(logger.handlers):
            logger.removeHandler(handler)
            handler.close()
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == [log.FILE, f"{log.FILE}.1"]
    for file in files:
        assert file.stat().st_size <= log.BYTES_MAX
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert "hunter2" not in file.read_text()


def test_the_command_for_agents_runs_by_itself(agent: Agent, world: Workspace) -> None:
    line = hook_command.hook_command("claude-code")
    assert shlex.split(line)[-2].endswith("takeback/daemon/knock.py")
    data = agent.call("PreToolUse", "Bash", command="true")
    empty = {"HOME": str(world.home), "TAKEBACK_HOME": str(world.home), "PATH": os.defpath}
    done = subprocess.run(["sh", "-c", line], input=data, env=empty, cwd=world.root, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert agent.daemon()
    with open_workspace(world.root, home=world.home, watching=False) as opened:
        assert [action.name for action in opened.history.actions.values()] == ["Bash"]


def test_a_project_cannot_pose_as_a_module(agent: Agent, world: Workspace) -> None:
    for name in ("takeback", "msgspec", "posix", "_socket", "platformdirs", "logging"):
        world.human(f"{name}.py", "raise SystemExit('posed')\n")
    agent.more["PYTHONPATH"] = str(world.root)
    assert not agent.bash("true").refusal
    agent.how = "daemon"
    control.stop(world.home)
    (world.home / "daemon.lock").unlink()
    (world.home / "daemon.lock").mkdir()
    assert not agent.bash("true").refusal, "without a daemon too"


def test_who_comes_while_a_workspace_is_opened_is_told_to_come_again(world: Workspace) -> None:
    go_on = threading.Event()

    def slowly(root: Path) -> Opened:
        assert go_on.wait(WAIT_S)
        return open_workspace(root, home=world.home)

    pool = Pool(slowly, wait_s=0.1)
    with pytest.raises(RunBusy, match="still busy"), pool.workspace(world.root):
        raise AssertionError("it cannot be open yet")
    go_on.set()
    deadline = time.monotonic() + WAIT_S
    while not pool.open():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    patient = Pool(slowly, wait_s=WAIT_S)
    with patient.workspace(world.root) as opened:
        assert opened.root == world.root
    patient.close()
    pool.close()


def test_nothing_is_done_for_one_who_has_gone(world: Workspace) -> None:
    pool = Pool(lambda root: open_workspace(root, home=world.home))
    with pytest.raises(RunBusy, match="gone away"), pool.workspace(world.root, lambda: False):
        raise AssertionError("nobody waits")
    pool.close()
