"""The holder of a workflow, and whether that process is still alive.

A process is identified by its number and its start time, since numbers are reused, and by the machine and process
namespace in which that number is valid. For a process of another machine or container, the lease decides.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from takeback.errors import UsageError
from takeback.workflows.record import SAFE_NAME, iso, seconds

LEASE_S = 900.0
TOKEN_VARIABLE = "TAKEBACK_WORKFLOW_TOKEN"
"""Set in the environment of a command that was started for a workflow; the workflow is already held for it."""


def here() -> dict[str, str]:
    """Return the machine, boot and process namespace in which our process numbers are valid."""
    return {"host": os.uname().nodename, "boot": _boot(), "space": _namespace()}


def describe(pid: int, now_s: float) -> dict[str, Any]:
    """Return a new holder: this process, from now on."""
    began = started(pid)
    if not began:
        raise UsageError(
            f"process {pid} is not running, so it cannot hold a workflow; nothing was done",
            hint="name a running process with --owner-pid: the agent itself, not a shell that ends at once",
        )
    return {"pid": pid, "started": began, **here(), "token": os.urandom(8).hex(), "acquiredAt": iso(now_s)}


def agent_here() -> str:
    """Return the name of the agent or user that the environment names."""
    names = (os.environ.get(name, "") for name in ("TAKEBACK_ACTOR", "LOGNAME", "USER"))
    return next((name for name in names if SAFE_NAME.fullmatch(name)), "agent")


def renewed(holder: dict[str, Any], now_s: float) -> dict[str, Any]:
    return holder | {"leaseUntil": iso(now_s + LEASE_S)}


def encode_holder(holder: dict[str, Any]) -> bytes:
    return json.dumps(holder, indent=2).encode() + b"\n"


def decode_holder(data: bytes) -> dict[str, Any] | None:
    """Return the holder that a lock file names, or None if it cannot be read as one: then no holder is known."""
    try:
        text = data.decode()
        if text[:1].isdigit():
            # The restart-recovery skill writes only the time. Its holder is not known, so the lease decides.
            return {"pid": 0, "started": "", "host": "", "leaseUntil": iso(seconds(text.strip()) + LEASE_S)}
        holder = json.loads(text)
        texts = [holder[name] for name in ("started", "host", "boot", "space", "token", "leaseUntil")]
        whole = type(holder["pid"]) is int and all(isinstance(text, str) for text in texts)
        return holder if whole and seconds(holder["leaseUntil"]) else None
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def lives(holder: dict[str, Any], now_s: float) -> bool:
    """Return True if the holder may still be at work. The clock decides only if the kernel cannot."""
    this = here()
    there = {name: holder.get(name, "") for name in this}
    if there == this:
        return bool(started(holder["pid"]) == holder["started"])
    if there["host"] == this["host"] and there["boot"] and this["boot"] and there["boot"] != this["boot"]:
        return False  # this machine was restarted, and no process survives that
    return now_s < seconds(holder["leaseUntil"])


def is_of(holder: dict[str, Any], owner_pid: int) -> bool:
    """Return True if the holder is this process or one of its ancestors."""
    if any(holder.get(name) != value for name, value in here().items()):
        return False
    return any(holder["pid"] == pid and holder["started"] == started(pid) for pid in _lineage(owner_pid))


def is_same(holder: dict[str, Any], owner_pid: int) -> bool:
    """Return True if the holder is exactly this process, and not just an ancestor: only one child may do the work."""
    return holder["pid"] == owner_pid and is_of(holder, owner_pid)


def in_words(holder: dict[str, Any]) -> str:
    if not holder["pid"]:
        return f"an unknown process until {holder['leaseUntil']}"
    return f"process {holder['pid']} on {holder['host'] or 'this machine'}"


def started(pid: int) -> str:
    """Return the start time of a process, or "" if it is not running. A zombie has ended and is not running."""
    if sys.platform != "linux":
        return _asked_ps(pid, "lstart")
    fields = _stat(pid)
    return "" if not fields or fields[0] in "ZX" else fields[19]


def _lineage(pid: int) -> list[int]:
    """Return a process and its ancestors."""
    found: list[int] = []
    while pid > 1 and pid not in found:
        found.append(pid)
        if sys.platform == "linux":
            fields = _stat(pid)
            pid = int(fields[1]) if fields else 0
        else:
            pid = int(_asked_ps(pid, "ppid") or 0)
    return found


def _stat(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _asked_ps(pid: int, field: str) -> str:
    import subprocess

    done = subprocess.run(["ps", "-o", f"{field}=", "-p", str(pid)], capture_output=True, text=True)
    return done.stdout.strip()


def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
