"""The script as a user runs it, and processes that live as long as a test wants them to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from takeback.workflows.record import encoded, iso, sealed

REPOSITORY = Path(__file__).parents[2]
TOOL = REPOSITORY / "scripts/checkpoint_tool.py"
SELFCHECK = REPOSITORY / "scripts/checkpoint_selfcheck.py"
ALONE = [sys.executable, "-I", "-S"]
"""A Python without site-packages: what runs here needs nothing but the standard library."""

EVERYTHING = bool(os.environ.get("TAKEBACK_TEST_ALL"))
DAY_S = 86_400


def run(root: Path, *words: str, code: int = 0, script: Path = TOOL) -> subprocess.CompletedProcess[str]:
    """Run the script in this folder; it must end with this exit code, and never with a traceback."""
    done = subprocess.run([*ALONE, str(script), *words], cwd=root, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == code, (words, done)
    return done


def record(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def start(root: Path, id: str = "w1", *more: str, key: str = "", code: int = 0) -> dict[str, Any]:
    """Begin one; nobody holds it, unless an owner is named."""
    words = ("--workflow", id, "--agent", "a", "--step", "one", "--idempotency", key or f"key-{id}")
    done = run(root, "start", *words, "--owner-pid", "0", *more, code=code)
    return record(done) if not code else {}


def place(root: Path, id: str) -> Path:
    return root / f"memory/checkpoints/{id}.json"


def read(root: Path, id: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(place(root, id).read_text())
    return found


def rewrite(root: Path, id: str, *, updated_s: float, **changes: Any) -> None:
    """The file as it would be had it been written at that moment."""
    place(root, id).write_bytes(encoded(sealed(read(root, id) | changes, updated_s)))


def expire(root: Path, id: str, at_s: float) -> None:
    rewrite(root, id, updated_s=at_s - DAY_S, expiresAt=iso(at_s))


@contextmanager
def living() -> Iterator[int]:
    """A process that lives until the end of the block."""
    process = subprocess.Popen(["sleep", "600"])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def dead() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid
