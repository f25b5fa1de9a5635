"""What is in scripts/ needs only the standard library, and is quick."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from takeback.workflows.bundle import SCRIPTS
from tests.house.repository import ROOT

SYNCS_MAX, OPENED_MAX, LISTED_MAX = 6, 24, 3
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
def test_each_script_runs_alone(name: str, tmp_path: Path) -> None:
    """A copy, on a Python without any package, in a folder of its own."""
    assert (ROOT / "scripts" / name).stat().st_mode & 0o111, f"{name} can be run"
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


# What a command costs that waits: for the disk, or for other programs. Its own time on the processor has noise.
COUNTING = """
import os, runpy, sys
counted = dict.fromkeys(("fsync", "open", "os.listdir", "os.scandir", "subprocess.Popen"), 0)
def count(event, args):
    if event in counted and not str(args[0]).startswith((sys.base_prefix, os.path.dirname(os.__file__))):
        counted[event] += 1  # what Python itself opens is not counted
sync = os.fsync
def fsync(fd):
    counted["fsync"] += 1
    sync(fd)
os.fsync = fsync
sys.addaudithook(count)
sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as ended:
    assert not ended.code
sys.stderr.write(repr(counted))
"""


def test_a_command_does_little(tmp_path: Path) -> None:
    tool = str(ROOT / "scripts/checkpoint_tool.py")

    def cost(*words: str) -> dict[str, int]:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", COUNTING, tool, *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        counted: dict[str, int] = ast.literal_eval(done.stderr)
        return counted

    for words in ((*START, "w"), ("update", "--workflow", "w", "--complete", "s")):
        used = cost(*words)
        assert used["fsync"] <= SYNCS_MAX and used["open"] <= OPENED_MAX, used
        assert used["os.listdir"] + used["os.scandir"] <= LISTED_MAX and not used["subprocess.Popen"], used
