"""Querying, starting and stopping the daemon: for commands, not for events."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from takeback.daemon import client, log, wire
from takeback.daemon import start as daemon_start
from takeback.errors import BackendError
from takeback.system import processes

ANSWER_WAIT_S = 5.0
START_WAIT_S = 20.0
STOP_WAIT_S = 15.0
POLL_S = 0.02


def status(home: Path) -> wire.Status | None:
    """Return the daemon's status, or None if there is no daemon."""
    found = _ask(home, wire.STATUS)
    return msgspec.json.decode(found, type=wire.Status) if found else None


def start(home: Path) -> wire.Status:
    """Start the daemon, unless it is running, and return its status."""
    deadline = time.monotonic() + START_WAIT_S
    found = status(home)
    if found is None:
        daemon_start.start(os.fsencode(home))
    while found is None:
        if time.monotonic() > deadline:
            raise BackendError(
                "the daemon did not start; everything works without it, but slower",
                hint=f"{home / log.FILE} may say why",
            )
        time.sleep(POLL_S)
        found = status(home)
    return found


def stop(home: Path) -> int:
    """Stop the daemon and wait until it has ended. Return its process, or 0 if there was none."""
    pid = holder(home)
    if not pid:
        return 0
    daemon = processes.describe(pid)
    try:
        _ask(home, wire.STOP)
    except BackendError:
        pass  # it does not answer; it is stopped anyway
    if not _ended(home):
        # It hangs. Killing it loses nothing: the next command settles what it was doing.
        os.kill(pid, signal.SIGKILL)
        _ended(home)
    # It gives up its lock a moment before it ends, and until then it keeps a view busy.
    _until(lambda: not processes.is_alive(daemon))
    return pid


def holder(home: Path) -> int:
    """Return the daemon's process, or 0 if there is no daemon."""
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
    return _until(lambda: not holder(home))


def _until(condition: Callable[[], bool]) -> bool:
    """Wait until something is so. Return False if it takes too long."""
    deadline = time.monotonic() + STOP_WAIT_S
    while not condition():
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
            hint="`takeback daemon stop` stops it; the next event starts a new one",
        ) from error
    return found[1] if found else b""
