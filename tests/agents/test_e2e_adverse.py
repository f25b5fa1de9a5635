"""Things that go wrong while a real client is at work: the daemon is killed, or the client itself."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from . import clients, scenes, stories, talking
from .protection import apart_from_times, daemon_pid, end_daemon, protected

pytestmark = pytest.mark.timeout(900)  # the first time, hundreds of megabytes are fetched

WAITING = (
    "echo half > half.txt; rm old.txt; touch {at}; "
    "until [ -e {go} ]; do sleep 0.02; done; echo whole > whole.txt"
)


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)


def script(project: Path, at: Path, go: Path) -> stories.Script:
    wait = scenes.shell("claude-code", WAITING.format(at=at, go=go))
    return {"wait": [stories.turn(wait)], **scenes.of("claude-code", project, at.parent)}


def test_the_daemon_is_killed_while_a_tool_is_at_work(tmp_path: Path) -> None:
    at, go = tmp_path / "at", tmp_path / "go"
    with protected(tmp_path, "claude-code") as project, ThreadPoolExecutor(1) as pool:
        before = project.look()
        with (
            clients.model(tmp_path, script(project.project, at, go), watched=project.project) as model,
            talking.claude_code(model, project.desk) as talk,
        ):
            waiting = pool.submit(talk.say, "[scene wait] go")
            try:
                wait_for(at)
                killed = end_daemon(project.world.home)
                assert killed
                # Somebody looks meanwhile, and touches nothing.
                assert "Bash" in project.takeback("status").said
            finally:
                go.touch()
            waiting.result()
            assert daemon_pid(project.world.home) not in (0, killed), "another one took over"
            after = project.look()
            talk.say("[scene again] go")
            project.undo()
            assert project.changes_since(after) == []
            project.undo()
            assert project.changes_since(before) == []


def test_the_client_is_killed_while_its_tool_is_at_work(tmp_path: Path) -> None:
    at, go = tmp_path / "at", tmp_path / "go"
    with protected(tmp_path, "claude-code") as project, ThreadPoolExecutor(1) as pool:
        before = project.look()
        with (
            clients.model(tmp_path, script(project.project, at, go)) as model,
            talking.opened(model, project.desk) as talk,
        ):
            waiting = pool.submit(talk.say, "[scene wait] go")
            try:
                wait_for(at)
                os.kill(talk.pid, signal.SIGKILL)
                with pytest.raises(AssertionError, match="the client has ended"):
                    waiting.result()
            finally:
                go.touch()
        wait_for(project.project / "whole.txt")
        # Nobody was there to tell what changed when. So it is in doubt, and the human decides.
        (run,) = [entry["id"] for entry in project.entries() if entry["kind"] == "run"]
        refused = project.takeback("undo", run, code=3)
        assert "half.txt" in refused.said
        project.takeback("undo", run, "--on-conflict", "overwrite")
        assert apart_from_times(before, project.look()) == []
