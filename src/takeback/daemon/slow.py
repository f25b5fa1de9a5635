"""Where no daemon can be had: one event in a process of its own. `python -I slow.py AGENT`.

A Python that cannot load Takeback is as good as none: what it needs was removed, or belongs to the Python that was
here before. The agent goes on then. Only the beginning of a session ends with an error, so that it is said once.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

BEGINNINGS = (b"essionStart", b"session.created")


def main() -> int:
    """One event from standard input. Returns the exit code."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    if root not in sys.path:
        sys.path.insert(0, root)
    try:
        once = import_module("takeback.agents.once")
    except Exception as error:  # noqa: BLE001 - an older Python may fail at anything
        return gone(sys.stdin.buffer.read(), error)
    code: int = once.main(sys.argv[1:])
    return code


def gone(data: bytes, error: Exception) -> int:
    """What to end with for an event that this Python cannot tell Takeback of."""
    if not any(beginning in data for beginning in BEGINNINGS):
        return 0
    version = ".".join(map(str, sys.version_info[:3]))
    sys.stderr.write(f"Takeback cannot be loaded by {sys.executable} ({version}): {error}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
