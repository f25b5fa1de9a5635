"""Asking a daemon how it is, starting and ending it: for commands, not for events."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from pathlib import Path

import msgspec

from takeback.daemon import client, log, wire
from takeback.daemon import start as daemon_start
from takeback.errors import BackendError

ANSWER_WAIT_S = 5.0
START_WAIT_S = 20.0
STOP_WAIT_S = 15.0
POLL_S = 0.02


def status(home: Path) -> wire.Status | None:
    """What the daemon says of itself; None where there is none."""
    found = _ask(home, wire.STATUS)
    return msgspec.json.decode(found, type=wire.Status) if found else None


def start(home: Path) -> wire.Status:
    """The daemon, started now unless it was there."""
    deadline = time.monotonic() + START_WAIT_S
    found = status(home)
    if found is None:
        daemon_start.start(os.fsencode(home))
    while found is None:
        if time.monotonic() > deadline:
            raise BackendError(
                "the daemon did not start; without it everything works, only slower",
                hint=f"{home / log.FILE} may tell why",
            )
        time.sleep(POLL_S)
        found = status(home)
    return found


def stop(home: Path) -> int:
    """End the daemon, and wait until it has ended. Gives its process; 0 where there was none."""
    pid = holder(home)
    if not pid:
        return 0
    try:
        _ask(home, wire.STOP)
    except BackendError:
        pass  # it does not answer; it is ended all the same
    if not _ended(home):
        # It hangs. Nothing is lost by this: whatever it was doing is settled by the next command.
        os.kill(pid, signal.SIGKILL)
        _ended(home)
    return pid


def holder(home: Path) -> int:
    """The process that is the daemon; 0 where there is none."""
    try:
        fd = os.open(home / "daemon.lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.read(fd, 32).strip()
        return int(text) if text.isdigit() else 0
    else:
        return 0
    finally:
        os.close(fd)


def _ended(home: Path) -> bool:
    deadline = time.monotonic() + STOP_WAIT_S
    while holder(home):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def _ask(home: Path, what: str) -> bytes:
    environ = dict(os.environb)
    try:
        found = client.ask(os.fsencode(home), client.request(what.encode(), b"", environ), ANSWER_WAIT_S)
    except TimeoutError as error:
        raise BackendError(
            f"the daemon (process {holder(home)}) does not answer; nothing was changed",
            hint="`takeback daemon stop` ends it; the next event starts another one",
        ) from error
    return found[1] if found else b""
