"""scripts/ is what the package's modules make today, needs only the standard library, and is quick."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from takeback.workflows.bundle import SCRIPTS, script
from tests.house.repository import ROOT

COMMAND_MS_MAX = 60
START = ("start", "--agent", "a", "--step", "s", "--idempotency", "k", "--workflow")
HEAVY = {
    "asyncio",
    "dataclasses",
    "hashlib",
    "inspect",
    "pathlib",
    "socket",
    "ssl",
    "subprocess",
    "typing",
    "urllib",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_each_script_is_up_to_date(name: str) -> None:
    path = ROOT / "scripts" / name
    assert path.read_text(encoding="utf-8") == script(name), "run: python -m takeback.workflows.bundle"
    assert path.stat().st_mode & 0o111, f"{name} can be run"


@pytest.mark.parametrize("name", SCRIPTS)
def test_each_script_runs_alone(name: str, tmp_path: Path) -> None:
    """A copy, on a Python without any package, in a folder of its own."""
    copy = tmp_path / name
    copy.write_bytes((ROOT / "scripts" / name).read_bytes())
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(copy), "--help"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_command_loads_little(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-X",
            "importtime",
            str(ROOT / "scripts/checkpoint_tool.py"),
            *START,
            "w",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "json" in loaded and not HEAVY & loaded


def test_a_command_is_quick(tmp_path: Path) -> None:
    """Its own time on the processor, the best of several: other tests run beside this one."""
    tool = str(ROOT / "scripts/checkpoint_tool.py")

    def took_ms(*words: str) -> float:
        process = subprocess.Popen([sys.executable, tool, *words], cwd=tmp_path, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return (used.ru_utime + used.ru_stime) * 1000

    for words in ((*START, "w"), ("update", "--workflow", "w", "--complete", "s")):
        assert min(took_ms(*words) for _ in range(5)) < COMMAND_MS_MAX
