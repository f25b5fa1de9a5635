"""The command that agents are told to run for each event."""

from __future__ import annotations

import os
import shlex
import sys

from takeback.daemon import knock


def hook_command(agent: str) -> str:
    """A line for a shell. It names this very installation, and starts as little of Python as can be.

    `takeback-hook AGENT` does the same, and is found by its name; but it starts all of Python first.
    """
    words = [sys.executable, "-I", "-S", os.path.realpath(knock.__file__), agent]
    return shlex.join(words) if sys.executable else f"takeback-hook {agent}"
