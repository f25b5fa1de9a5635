"""Which processes still live, told by more than a number: numbers are used again."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

from takeback.boot import boot_id
from takeback.core.events import Process

SIGN_OF_LIFE_NS = 60 * 10**9
ANCESTORS_MAX = 1000

VARIABLE = "TAKEBACK_ACTION"
"""In the environment of everything that an action starts. It outlives parents, sessions and closed descriptors."""


def this_process() -> Process:
    return describe(os.getpid())


def describe(pid: int) -> Process:
    return Process(pid, _started(pid), boot_id(), platform.node())


def lineage() -> list[Process]:
    """This process, the one that it was started by, and so on."""
    found: list[Process] = []
    pid = os.getpid()
    while pid > 0 and len(found) < ANCESTORS_MAX:
        found.append(describe(pid))
        pid = parent_of(pid)
    return found


def parent_of(pid: int) -> int:
    """The process that this one was started by, or that took it over; 0 where it is gone."""
    return int(_fields(pid)[1])


def is_alive(process: Process | None, last_sign_ns: int = 0) -> bool:
    """Whether this very process still runs.

    On another machine, one of another name and another boot, only its last sign of life can tell.
    """
    if process is None:
        return False
    if process.boot != boot_id():
        elsewhere = process.host != platform.node()
        return elsewhere and time.time_ns() - last_sign_ns < SIGN_OF_LIFE_NS
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
    fields = _fields(pid)
    # A zombie has ended; only its parent has not noticed.
    return "" if fields[0] == "Z" else fields[19]


def _fields(pid: int) -> list[str]:
    """What the kernel tells of a process, from its state on."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return ["Z", "0"]
    return text.rpartition(")")[2].split()
