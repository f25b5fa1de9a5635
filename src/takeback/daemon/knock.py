"""The fast path: one event of an agent to the daemon, and its answer back.

This file is run by itself, as `python -I -S knock.py AGENT`, for every tool call of an agent. So it imports next to
nothing, nothing of Takeback, and no module that is written in Python where one in C does. Without a daemon it starts
one; where that does not work it does the work in this process, slowly.

    request   fields, each ended by NUL, the last one empty; then what the agent sent, until the end of the stream
    answer    `<exit code> <bytes of standard output>\\n`, that many bytes, then standard error until the end
"""

from __future__ import annotations

import _socket
import os
import sys
from time import monotonic, sleep

MAGIC = b"takeback 1"
SOCKET = "daemon.sock"
START_WAIT_S = 5.0
ANSWER_WAIT_S = 600.0
POLL_S = 0.005

PASSED = (
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_PROJECT_DIR",
    "GEMINI_PROJECT_DIR",
    "GEMINI_SESSION_ID",
    "TAKEBACK_ACTION",
    "TAKEBACK_HOME",
)
"""What of the environment is told. Nothing else: there are secrets in it."""


def home() -> str:
    """Where state is kept, as config.py has it; said twice because nothing is imported here."""
    own = os.environ.get("TAKEBACK_HOME")
    if own:
        return os.path.realpath(own)
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(state, "takeback")


def identity() -> bytes:
    """Which installation this is: a daemon of another one is replaced."""
    found = os.stat(__file__)
    return b"%s %d %d" % (os.fsencode(os.path.realpath(__file__)), found.st_mtime_ns, found.st_size)


def request(agent: str, data: bytes) -> bytes:
    told = [f"{name}={os.environ[name]}" for name in PASSED if name in os.environ]
    fields = [MAGIC, identity(), os.fsencode(agent), os.fsencode(os.getcwd()), b"%d" % os.getppid()]
    return b"\0".join([*fields, *map(os.fsencode, told), b"", data])


def ask(message: bytes) -> bytes | None:
    """The daemon's answer; None where there is no daemon, or it went away."""
    # A socket's path may have about a hundred bytes; a folder of any depth is reached from inside.
    here = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        folder = os.open(home(), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        here.close()
        return None
    try:
        here.settimeout(ANSWER_WAIT_S)
        here.connect(f"/proc/self/fd/{folder}/{SOCKET}")
        here.sendall(message)
        here.shutdown(_socket.SHUT_WR)
        parts = []
        while part := here.recv(1 << 16):
            parts.append(part)
        return b"".join(parts) or None
    except OSError:
        return None
    finally:
        os.close(folder)
        here.close()


def program(module: str, *words: str) -> list[str]:
    """How to run a module of this very installation."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    code = f"import sys; sys.path.insert(0, {root!r}); from {module} import main; sys.exit(main({list(words)!r}))"
    return [sys.executable, "-c", code]


def start() -> None:
    """Start a daemon, apart from our terminal and from the pipes of whoever called us."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    files = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)]
    command = program("takeback.daemon.serve")
    os.posix_spawn(command[0], command, os.environ, file_actions=files, setsid=True)
    os.close(null)


def answer(message: bytes) -> bytes | None:
    """Ask the daemon, and start it where there is none."""
    found = ask(message)
    if found:
        return found
    start()
    deadline = monotonic() + START_WAIT_S
    while not found and monotonic() < deadline:
        sleep(POLL_S)
        found = ask(message)
    return found


def slowly(agent: str, data: bytes) -> None:
    """Do it in this process. Never comes back."""
    fd = os.memfd_create("takeback-event")
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    os.dup2(fd, 0)
    command = program("takeback.agents.once", agent)
    os.execv(command[0], command)


def main() -> int:
    agent = sys.argv[1] if len(sys.argv) == 2 else ""
    data = sys.stdin.buffer.read()
    found = answer(request(agent, data))
    if not found:
        slowly(agent, data)
        return 1
    head, _, rest = found.partition(b"\n")
    code, length = map(int, head.split())
    sys.stdout.buffer.write(rest[:length])
    sys.stderr.buffer.write(rest[length:])
    return code


if __name__ == "__main__":
    sys.exit(main())
