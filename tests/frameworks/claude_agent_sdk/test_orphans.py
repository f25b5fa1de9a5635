"""Programs that outlive their killed host, as real processes: waited for, ended, or left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from takeback.frameworks.claude_agent_sdk import orphans

HOST = """
import os, subprocess, sys
from takeback.frameworks.claude_agent_sdk import orphans
env = os.environ | orphans.marking(sys.argv[1])
subprocess.Popen(["sh", "-c", sys.argv[2]], env=env, start_new_session=True).wait()
"""
COMMAND = "touch begun; until [ -e release ]; do sleep 0.02; done; echo late > late.txt"
PROGRAM = f"sh -c '{COMMAND}; :'; while :; do sleep 0.02; done"
"""A program that waits for a command that it has begun, and then for ever."""
IDLE = "touch begun; while :; do sleep 60; done"


def wait_until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for pid in orphans.left_behind(str(tmp_path)):
        os.kill(pid, signal.SIGKILL)


def host(folder: Path, program: str) -> subprocess.Popen[bytes]:
    started = subprocess.Popen([sys.executable, "-c", HOST, str(folder), program], cwd=folder)
    wait_until((folder / "begun").exists)
    return started


def killed(folder: Path, program: str) -> None:
    with host(folder, program) as started:
        started.kill()
    assert orphans.left_behind(str(folder))


def test_a_command_that_was_begun_is_waited_for(folder: Path) -> None:
    killed(folder, PROGRAM)
    ending = threading.Thread(target=orphans.end_orphans, args=[str(folder)])
    ending.start()
    (folder / "release").touch()
    ending.join()
    assert (folder / "late.txt").read_text() == "late\n"
    assert not orphans.left_behind(str(folder))


def test_a_command_that_does_not_end_is_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "WORKING_S_MAX", 0.1)
    killed(folder, PROGRAM)
    orphans.end_orphans(str(folder))
    assert not orphans.left_behind(str(folder)) and not (folder / "late.txt").exists()


def test_a_program_that_ignores_the_request_is_killed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "WORKING_S_MAX", 0.1)
    monkeypatch.setattr(orphans, "TERMINATING_S_MAX", 1.0)
    killed(folder, f"trap '' TERM; {IDLE}")
    orphans.end_orphans(str(folder))
    wait_until(lambda: not orphans.left_behind(str(folder)))


def test_a_program_whose_host_lives_is_left_alone(folder: Path) -> None:
    with host(folder, IDLE) as started:
        try:
            assert not orphans.left_behind(str(folder))
            orphans.end_orphans(str(folder))
            assert started.poll() is None
        finally:
            started.kill()


def test_a_program_of_another_workspace_is_left_alone(folder: Path) -> None:
    killed(folder, IDLE)
    orphans.end_orphans(f"{folder}-2")
    assert orphans.left_behind(str(folder))
