"""Which processes still live, told by more than a number: numbers are used again."""

from __future__ import annotations

import functools
import os
import platform
from pathlib import Path

from takeback.core.events import Process

VARIABLE = "TAKEBACK_ACTION"
"""In the environment of everything that an action starts. It outlives parents, sessions and closed descriptors."""


def this_process() -> Process:
    return describe(os.getpid())


def describe(pid: int) -> Process:
    return Process(pid, _started(pid), _boot(), platform.node())


def is_alive(process: Process | None) -> bool:
    """Whether this very process still runs. On another host nobody can tell, so it counts as alive."""
    if process is None:
        return False
    if process.host != platform.node():
        return True
    if process.boot != _boot():
        return False
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return process.started == _started(process.pid)


def descendants(token: str) -> list[int]:
    """Processes that carry this action's token in their environment, whoever their parent is by now."""
    wanted = f"{VARIABLE}={token}".encode()
    found = []
    for entry in _listing():
        if int(entry) == os.getpid():
            continue
        try:
            environment = Path(f"/proc/{entry}/environ").read_bytes()
        except OSError:
            # Gone meanwhile, or another user's: not something that we started.
            continue
        if wanted in environment.split(b"\0"):
            found.append(int(entry))
    return found


def _listing() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _started(pid: int) -> str:
    """When a process began, in the kernel's own count; empty where there is no /proc."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    # A zombie has ended; only its parent has not noticed.
    return "" if fields[0] == "Z" else fields[19]


@functools.cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
