"""The command that agents run for each event."""

from __future__ import annotations

import os
import shlex
import sys

from takeback.daemon import knock


def hook_command(agent: str) -> str:
    """Return a line for a shell. It names this installation, and loads as little of Python as possible.

    `takeback-hook AGENT` does the same and is found by name, but it loads all of Python first.
    """
    words = [sys.executable, "-I", "-S", os.path.realpath(knock.__file__), agent]
    return shlex.join(words) if sys.executable else f"takeback-hook {agent}"
