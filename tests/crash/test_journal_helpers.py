"""The tools that crash tests are made of do what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from takeback.system import crash_points
from takeback.testing import crash
from takeback.testing.clock import ManualClock

WORKER = "tests.crash.journal_worker:append_some"


def test_a_command_runs_to_its_end_where_the_point_is_not_reached(tmp_path: Path) -> None:
    done = crash.run("journal-inside", 9, [WORKER, tmp_path / "journal.db", "3"])
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 7


def test_a_command_is_killed_where_the_point_is_reached(tmp_path: Path) -> None:
    killed = crash.run("journal-inside", 2, [WORKER, tmp_path / "journal.db", "3"])
    assert (killed.returncode, len(killed.stdout.splitlines())) == (crash.KILLED, 1)


def test_the_command_line_can_be_run() -> None:
    done = crash.run("never", 1, ["takeback", "--version"])
    assert done.returncode == 0, done.stderr
    assert "takeback" in done.stdout


def test_wrong_use_is_said() -> None:
    command = [sys.executable, "-m", "takeback.testing.crash", "journal-inside", "takeback"]
    result = subprocess.run(command, env=crash.child_environment(), capture_output=True, text=True)
    assert result.returncode == 1
    assert "usage:" in result.stderr


def test_a_point_can_fail_in_this_process() -> None:
    def fail() -> None:
        raise OSError("injected")

    with crash.at("place", fail, nth=2) as passes:
        crash_points.reach("place")
        with pytest.raises(OSError, match="injected"):
            crash_points.reach("place")
        crash_points.reach("place")
        crash_points.reach("other")
    crash_points.reach("place")
    assert passes == {"place": 3, "other": 1}


def test_the_clock_moves_only_when_told() -> None:
    clock = ManualClock()
    first = clock.now_us()
    assert clock.now_us() == first
    clock.advance(1.5)
    assert clock.now_us() == first + 1_500_000
