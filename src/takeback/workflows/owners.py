"""Who holds a workflow, and whether that process still lives.

A process is told by its number and its start, since numbers are used again; and by the machine and the process
namespace in which that number means anything. Where the number says nothing (another machine, another
container) the lease decides.
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
"""In the environment of a command that was started for a workflow which is already held for it."""


def here() -> dict[str, str]:
    """Where process numbers mean what they mean to us."""
    return {"host": os.uname().nodename, "boot": _boot(), "space": _namespace()}


def describe(pid: int, now_s: float) -> dict[str, Any]:
    """A new holder: this process, from now on."""
    began = started(pid)
    if not began:
        raise UsageError(
            f"process {pid} is not running, so it cannot hold a workflow; nothing was done",
            hint="name a living process with --owner-pid: the agent itself, not a shell that ends at once",
        )
    return {"pid": pid, "started": began, **here(), "token": os.urandom(8).hex(), "acquiredAt": iso(now_s)}


def agent_here() -> str:
    """Who works here, as far as the environment says."""
    names = (os.environ.get(name, "") for name in ("TAKEBACK_ACTOR", "LOGNAME", "USER"))
    return next((name for name in names if SAFE_NAME.fullmatch(name)), "agent")


def renewed(holder: dict[str, Any], now_s: float) -> dict[str, Any]:
    return holder | {"leaseUntil": iso(now_s + LEASE_S)}


def encode_holder(holder: dict[str, Any]) -> bytes:
    return json.dumps(holder, indent=2).encode() + b"\n"


def decode_holder(data: bytes) -> dict[str, Any] | None:
    """What a lock file says. None where it says nothing of use: then nobody can be shown to hold it."""
    try:
        text = data.decode()
        if text[:1].isdigit():
            # The restart-recovery skill writes only the time. Its holder cannot be asked; the lease decides.
            return {"pid": 0, "started": "", "host": "", "leaseUntil": iso(seconds(text.strip()) + LEASE_S)}
        holder = json.loads(text)
        texts = [holder[name] for name in ("started", "host", "boot", "space", "token", "leaseUntil")]
        whole = type(holder["pid"]) is int and all(isinstance(text, str) for text in texts)
        return holder if whole and seconds(holder["leaseUntil"]) else None
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def lives(holder: dict[str, Any], now_s: float) -> bool:
    """Whether the holder may still be at work. No clock is asked where the kernel can tell."""
    this = here()
    there = {name: holder.get(name, "") for name in this}
    if there == this:
        return bool(started(holder["pid"]) == holder["started"])
    if there["host"] == this["host"] and there["boot"] and this["boot"] and there["boot"] != this["boot"]:
        return False  # this machine was restarted, and nothing survives that
    return now_s < seconds(holder["leaseUntil"])


def is_of(holder: dict[str, Any], owner_pid: int) -> bool:
    """Whether this process holds it, or one of those that it was started by."""
    if any(holder.get(name) != value for name, value in here().items()):
        return False
    return any(holder["pid"] == pid and holder["started"] == started(pid) for pid in _lineage(owner_pid))


def is_same(holder: dict[str, Any], owner_pid: int) -> bool:
    """Whether just this process holds it. Those that it started may be several, and only one may have the work."""
    return holder["pid"] == owner_pid and is_of(holder, owner_pid)


def in_words(holder: dict[str, Any]) -> str:
    if not holder["pid"]:
        return f"somebody until {holder['leaseUntil']}"
    return f"process {holder['pid']} on {holder['host'] or 'this machine'}"


def started(pid: int) -> str:
    """When a process began; empty where it is not running. A zombie has ended: only its parent has not noticed."""
    if sys.platform != "linux":
        return _asked_ps(pid, "lstart")
    fields = _stat(pid)
    return "" if not fields or fields[0] in "ZX" else fields[19]


def _lineage(pid: int) -> list[int]:
    """A process and those above it."""
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
