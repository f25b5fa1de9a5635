"""One event in a process of its own, if no daemon can be started. `python -I without.py AGENT`.

If this Python cannot load Takeback, because a package was removed or Python was replaced, the agent continues, and
the beginning of a session shows an error.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module


def main() -> int:
    """Handle one event from standard input. Return the exit code."""
    here = os.path.dirname(os.path.realpath(__file__))
    root = os.path.dirname(os.path.dirname(here))
    if root not in sys.path:
        sys.path.insert(0, root)
    data = sys.stdin.buffer.read()
    try:
        once = import_module("takeback.agents.once")
    except Exception as error:  # noqa: BLE001 - an older Python may fail in any way
        return gone(here, data, error)
    try:
        code: int = once.tell(sys.argv[1], data)
    except ImportError as error:
        return gone(here, data, error)
    return code


def gone(here: str, data: bytes, error: Exception) -> int:
    """Return the exit code for an event that this Python cannot handle; print why at the beginning of a session."""
    sys.path.insert(0, here)  # nothing else of Takeback can be relied on
    code: int = import_module("client").gone(data)
    if code:
        version = ".".join(map(str, sys.version_info[:3]))
        sys.stderr.write(f"Takeback cannot be loaded by {sys.executable} ({version}): {error}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
