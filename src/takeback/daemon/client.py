"""The fast path: sends one event of an agent to the daemon, and returns its answer.

knock.py loads only this for every tool call of an agent. So it is short and imports only modules that are built into
Python. What to do if no daemon answers is in start.py, which is loaded only then.

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
"""The variables that are passed on. No others: the environment contains secrets."""
NOTIFY = b"TAKEBACK_NOTIFY_"
"""The prefix of variables that are passed on, too: with the addresses of notifiers, which the daemon lets be told."""

BEGINNING = "import sys; "

SESSIONS = (b"essionStart", b"session.created")
"""Texts in the first event of a session, of any agent."""

Answer = tuple[int, bytes, bytes]


def home(environ: dict[bytes, bytes]) -> bytes:
    """Return the state folder, as settings/environment.py does; repeated here because nothing is imported."""
    if own := environ.get(b"TAKEBACK_HOME"):
        return own
    if state := environ.get(b"XDG_STATE_HOME", b"").strip():
        return state + b"/takeback"
    if not (user := environ.get(b"HOME")):
        import pwd

        user = pwd.getpwuid(posix.getuid()).pw_dir.encode()
    return user + b"/.local/state/takeback"


def identity() -> bytes:
    """Return what identifies this installation: a daemon of another one is replaced."""
    found = posix.stat(__file__)
    return b"%d %d %d %d" % (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)


def request(agent: bytes, data: bytes, environ: dict[bytes, bytes]) -> bytes:
    try:
        folder = posix.getcwdb()
    except FileNotFoundError:
        folder = b"."  # the folder is gone; no field may be empty
    wanted = [*PASSED, *[name for name in environ if name.startswith(NOTIFY)]]
    passed = [name + b"=" + environ[name] for name in wanted if name in environ]
    return b"\0".join([MAGIC, identity(), agent, folder, b"%d" % posix.getppid(), *passed, b"", data])


def peer(here: _socket.socket) -> tuple[int, int]:
    """Return the process at the other end and its user, as the kernel reports them."""
    raw = here.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    return int.from_bytes(raw[:4], sys.byteorder), int.from_bytes(raw[4:8], sys.byteorder)


def is_daemon(pid: int) -> bool:
    """Return True if a process is the daemon of this installation, as far as the kernel knows: the same interpreter,
    started with exactly the arguments that start.py uses."""
    try:
        same = posix.readlink(b"/proc/%d/exe" % pid).removesuffix(b" (deleted)")
        own = posix.readlink(b"/proc/self/exe").removesuffix(b" (deleted)")
        fd = posix.open(b"/proc/%d/cmdline" % pid, posix.O_RDONLY | posix.O_CLOEXEC)
        try:
            words = posix.read(fd, 1 << 16).split(b"\0")[1:-1]
        finally:
            posix.close(fd)
        text = words[2].decode(errors="surrogateescape") if len(words) == 3 else ""
        literal = text[len(BEGINNING) : text.find(" in sys.path")]
        root = literal[1:-1] if "\\" not in literal else __import__("ast").literal_eval(literal)
        found = posix.stat(f"{root}/takeback/daemon/client.py")
    except (OSError, SyntaxError, ValueError):
        return False
    is_ours = (found.st_dev, found.st_ino) == (posix.stat(__file__).st_dev, posix.stat(__file__).st_ino)
    return same == own and words[:2] == [b"-I", b"-c"] and text == serving(root) and is_ours


def serving(root: str) -> str:
    """Return the code that a daemon of the installation in this folder runs, as in start.py."""
    path = f"{BEGINNING}{root!r} in sys.path or sys.path.insert(0, {root!r})"
    return f"{path}; from takeback.daemon.main import main; sys.exit(main([]))"


def ask(folder: bytes, message: bytes, wait_s: float = ANSWER_WAIT_S, *, wary: bool = False) -> Answer | None:
    """Return the daemon's answer, or None if there is no daemon or it went away. Raise TimeoutError if it is silent.

    A process that listens in another user's folder is not asked. A process that is not our daemon gets the request,
    so that a daemon of another installation makes room; but with `wary` its answer is ignored, so it allows nothing.
    """
    here = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        # A socket's path may have only about a hundred bytes, so the folder is opened first.
        fd = posix.open(folder, posix.O_PATH | posix.O_DIRECTORY | posix.O_CLOEXEC)
        try:
            here.settimeout(wait_s)
            if posix.fstat(fd).st_uid != posix.geteuid():
                return None
            here.connect(b"/proc/self/fd/%d/%s" % (fd, SOCKET))
        finally:
            posix.close(fd)
        pid, uid = peer(here)
        if uid != posix.geteuid():
            return None
        believed = not wary or is_daemon(pid)
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
    return _read(found) if believed else None


def _read(found: bytes) -> Answer | None:
    """Return a complete answer, or None: the daemon may have been killed while it was writing."""
    head, _, rest = found.partition(b"\n")
    numbers = head.split()
    if len(numbers) != 3:
        return None
    code, out, err = map(int, numbers)
    return (code, rest[:out], rest[out:]) if len(rest) == out + err else None


def main() -> int:
    """Handle one event from standard input. Return the exit code."""
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
        answer = ask(folder, message, ANSWER_WAIT_S, wary=True)
    except TimeoutError:
        hung = True
    if answer is None:
        sys.path.insert(0, __file__.rpartition("/")[0])
        try:
            start = __import__("start")
        except ImportError:
            return gone(data)
        finally:
            del sys.path[0]
        answer = start.answer(lambda: ask(folder, message, wary=True), folder, agent, data, hung=hung)
    code, out, err = answer
    _write(1, out)
    _write(2, err)
    return code


def gone(data: bytes) -> int:
    """Return the exit code if a part of Takeback is missing. The agent continues; only the beginning of a session
    fails, so that the error is shown once."""
    return 1 if any(beginning in data for beginning in SESSIONS) else 0


def _write(fd: int, text: bytes) -> None:
    while text:
        text = text[posix.write(fd, text) :]
