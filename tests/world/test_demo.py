"""The demo: it proves what it says, leaves nothing behind, and waits only for a person who is there."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.world.cli import REPOSITORY

DEMO = [sys.executable, str(REPOSITORY / "examples/demo.py")]


def surroundings(folder: Path) -> dict[str, str]:
    """A temporary folder of its own, so that what is left there is seen."""
    return os.environ | {"TMPDIR": str(folder), "HOME": str(folder), "TERM": "dumb"}


def test_without_a_terminal_it_never_waits_and_proves_what_it_says(tmp_path: Path) -> None:
    done = subprocess.run(
        DEMO, env=surroundings(tmp_path), stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("Checked by this script") == 4 and "[Enter]" not in done.stdout
    for said in ("takeback log", "prices.py", ".env", "1 row of orders", "branch wishlist"):
        assert said in done.stdout, said
    last = done.stdout.rstrip().split("\n")[-10:]
    assert last[0].startswith("That was it") and all(line.startswith("  takeback ") for line in last[2:])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options, pauses", [([], 7), pytest.param(["--fast"], 0, marks=pytest.mark.sweep)])
def test_on_a_terminal_it_waits_unless_told_not_to(options: list[str], pauses: int, tmp_path: Path) -> None:
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(DEMO[0], [*DEMO, *options], surroundings(tmp_path))
    shown, answered = b"", 0
    with contextlib.suppress(OSError):  # the terminal goes away with its last user
        while data := os.read(fd, 65536):
            shown += data
            if len(re.findall(rb"\[Enter\]", shown)) > answered:
                os.write(fd, b"\n")
                answered += 1
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(fd)
    assert code == 0, shown.decode()
    assert answered == pauses
