"""The slow path, if no daemon answers: start one and ask it; if that fails, too, work without a daemon.

Like client.py, which loads this file, it runs without any of the packages that Takeback needs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from time import monotonic, sleep

START_WAIT_S = 10.0
POLL_S = 0.005

KEPT = ("HOME", "LANG", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")
KEPT_BEGINNINGS = ("LC_", "PG", "TAKEBACK_TEST_", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
"""The variables that a daemon gets. It also serves others and outlives the process that started it, so it must not
get an action's variables or an agent's secrets."""

Answer = tuple[int, bytes, bytes]


def answer(
    ask: Callable[[], Answer | None], folder: bytes, agent: bytes, data: bytes, *, hung: bool
) -> Answer:
    """Return the daemon's answer, once there is a daemon. Never return if the work has to be done in this process."""
    if not hung and (found := _from_new_daemon(ask, folder)):
        return found
    return slowly(agent, data)


def _from_new_daemon(ask: Callable[[], Answer | None], folder: bytes) -> Answer | None:
    deadline = monotonic() + START_WAIT_S
    try:
        child = start(folder)
    except OSError:
        return None  # no further process can be started, so this one does the work
    while monotonic() < deadline:
        sleep(POLL_S)
        try:
            if found := ask():
                return found
        except TimeoutError:
            return None
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended and os.waitstatus_to_exitcode(status):
            return None
        if ended:
            # Another daemon was running, and may be about to make room.
            child = start(folder)
    return None


def program(module: str, *words: str) -> list[str]:
    """Return a command that runs a module of this installation, in any folder and environment."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    path = f"import sys; {root!r} in sys.path or sys.path.insert(0, {root!r})"
    return [sys.executable, "-I", "-c", f"{path}; from {module} import main; sys.exit(main({list(words)!r}))"]


def start(folder: bytes) -> int:
    """Start a daemon, detached from our terminal and from our caller's pipes. Return its process."""
    kept = {
        name: value for name, value in os.environ.items() if name in KEPT or name.startswith(KEPT_BEGINNINGS)
    }
    kept["TAKEBACK_HOME"] = os.fsdecode(os.path.realpath(folder))
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    files = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)]
    command = program("takeback.daemon.main")
    try:
        return os.posix_spawn(command[0], command, kept, file_actions=files, setsid=True)
    finally:
        os.close(null)


def slowly(agent: bytes, data: bytes) -> Answer:
    """Handle the event in this process. Never return."""
    fd = os.memfd_create("takeback-event")
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
    os.lseek(fd, 0, os.SEEK_SET)
    os.dup2(fd, 0)
    beside = os.path.join(os.path.dirname(os.path.realpath(__file__)), "without.py")
    os.execv(sys.executable, [sys.executable, "-I", beside, os.fsdecode(agent)])
