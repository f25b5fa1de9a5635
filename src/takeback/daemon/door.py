"""The fast path: one event of an agent to the daemon, and its answer back.

This is all that is loaded, by knock.py, for every tool call of an agent. So it is short and imports nothing but what
is built into Python. What is to be done where no daemon answers stands in rouse.py, which is read only then.

    request   fields, each ended by NUL, the last one empty; then what the agent sent, until the end of the stream
    answer    `<exit code> <bytes of standard output> <bytes of standard error>\\n`, and both
"""

import _socket
import posix
import sys

MAGIC = b"takeback 1"
SOCKET = b"daemon.sock"
ANSWER_WAIT_S = 40.0

PASSED = (
    b"CLAUDE_CODE_ENTRYPOINT",
    b"CLAUDE_PROJECT_DIR",
    b"CURSOR_PROJECT_DIR",
    b"GEMINI_PROJECT_DIR",
    b"HOME",
    b"TAKEBACK_ACTION",
    b"TAKEBACK_ACTOR",
)
"""What of the environment is told. Nothing else: there are secrets in it."""

Answer = tuple[int, bytes, bytes]


def home(environ: dict[bytes, bytes]) -> bytes:
    """Where state is kept, as config.py has it; said twice because nothing is imported here."""
    if own := environ.get(b"TAKEBACK_HOME"):
        return own
    if state := environ.get(b"XDG_STATE_HOME", b"").strip():
        return state + b"/takeback"
    if not (user := environ.get(b"HOME")):
        import pwd

        user = pwd.getpwuid(posix.getuid()).pw_dir.encode()
    return user + b"/.local/state/takeback"


def identity() -> bytes:
    """Which installation this is: a daemon of another one is replaced."""
    found = posix.stat(__file__)
    return b"%d %d %d %d" % (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)


def request(agent: bytes, data: bytes, environ: dict[bytes, bytes]) -> bytes:
    try:
        folder = posix.getcwdb()
    except FileNotFoundError:
        folder = b"."  # it is gone; no field may be empty
    told = [name + b"=" + environ[name] for name in PASSED if name in environ]
    return b"\0".join([MAGIC, identity(), agent, folder, b"%d" % posix.getppid(), *told, b"", data])


def ask(folder: bytes, message: bytes, wait_s: float = ANSWER_WAIT_S) -> Answer | None:
    """The daemon's answer; None where there is no daemon, or it went away. A TimeoutError where it says nothing."""
    here = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        # A socket's path may have about a hundred bytes; a folder of any depth is reached from inside.
        fd = posix.open(folder, posix.O_PATH | posix.O_DIRECTORY | posix.O_CLOEXEC)
        try:
            here.settimeout(wait_s)
            here.connect(b"/proc/self/fd/%d/%s" % (fd, SOCKET))
        finally:
            posix.close(fd)
        here.sendall(message)
        here.shutdown(_socket.SHUT_WR)
        found = b""
        while part := here.recv(1 << 16):
            found += part
    except TimeoutError:
        raise
    except OSError:
        return None
    finally:
        here.close()
    return _read(found)


def _read(found: bytes) -> Answer | None:
    """Only a whole answer is one: the daemon may have been killed while it spoke."""
    head, _, rest = found.partition(b"\n")
    numbers = head.split()
    if len(numbers) != 3:
        return None
    code, out, err = map(int, numbers)
    return (code, rest[:out], rest[out:]) if len(rest) == out + err else None


def main() -> int:
    """One event from standard input. Gives the exit code."""
    environ: dict[bytes, bytes] = posix.environ
    agent = sys.argv[1].encode(errors="surrogateescape") if len(sys.argv) == 2 else b""
    if not agent:
        posix.write(2, b"usage: takeback-hook AGENT, with an event on standard input\n")
        return 1  # not 2: for an agent that would be a refusal
    data = b""
    while part := posix.read(0, 1 << 16):
        data += part
    folder, message, answer, hung = home(environ), request(agent, data, environ), None, False
    try:
        answer = ask(folder, message, ANSWER_WAIT_S)
    except TimeoutError:
        hung = True
    if answer is None:
        from importlib.machinery import SourceFileLoader

        beside = __file__[: -len("door.py")] + "rouse.py"
        rouse = SourceFileLoader("takeback_rouse", beside).load_module()
        answer = rouse.answer(lambda: ask(folder, message), folder, agent, data, hung=hung)
    code, out, err = answer
    _write(1, out)
    _write(2, err)
    return code


def _write(fd: int, text: bytes) -> None:
    while text:
        text = text[posix.write(fd, text) :]
