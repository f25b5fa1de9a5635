"""Where no daemon answers: start one and ask it; and where that does not work either, do without.

Like client.py, which reads this file, it is run without any of the packages that Takeback needs.
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
"""What of the environment a daemon gets. It serves others too, and outlives whoever happened to start it: what an
action gives its processes, and the secrets of an agent, are none of its business."""

Answer = tuple[int, bytes, bytes]


def answer(
    ask: Callable[[], Answer | None], folder: bytes, agent: bytes, data: bytes, *, hung: bool
) -> Answer:
    """What the daemon says, once there is one. Does not come back where the work has to be done here."""
    if not hung and (found := _from_new_daemon(ask, folder)):
        return found
    return slowly(agent, data)


def _from_new_daemon(ask: Callable[[], Answer | None], folder: bytes) -> Answer | None:
    deadline = monotonic() + START_WAIT_S
    try:
        child = start(folder)
    except OSError:
        return None  # there is no room for another process; this one is enough
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
            # Another one was there, and is perhaps about to make room.
            child = start(folder)
    return None


def program(module: str, *words: str) -> list[str]:
    """How to run a module of this very installation, whatever folder and environment we are in."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    path = f"import sys; {root!r} in sys.path or sys.path.insert(0, {root!r})"
    return [sys.executable, "-I", "-c", f"{path}; from {module} import main; sys.exit(main({list(words)!r}))"]


def start(folder: bytes) -> int:
    """Start a daemon, apart from our terminal and from the pipes of whoever called us. Gives its process."""
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
    """Do it in this process. Never comes back."""
    fd = os.memfd_create("takeback-event")
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
    os.lseek(fd, 0, os.SEEK_SET)
    os.dup2(fd, 0)
    beside = os.path.join(os.path.dirname(os.path.realpath(__file__)), "without.py")
    os.execv(sys.executable, [sys.executable, "-I", beside, os.fsdecode(agent)])
