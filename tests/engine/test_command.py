"""Running a command in the place of whoever asked for it: signals are the command's, whenever they come."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from takeback.engine.tracking.command import run_child


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_while_the_command_starts_reaches_it(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = subprocess.Popen

    def started(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        process = start(*args, **options)
        os.kill(os.getpid(), number)
        return process

    monkeypatch.setattr(subprocess, "Popen", started)
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        child = run_child(["sleep", "60"], token="here:a1", show_life=lambda: None)
    assert (child.code, child.why) == (128 + number, f"ended by {number.name}")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
