"""Starting a command inside a fence.

Three processes. The starter is what the caller sees: it forwards signals, and ends as the command ends. The command
enters namespaces, gives up writing elsewhere, and is then replaced by the user's program. The supervisor stays
outside and lives as long as any process inside.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import stat
import sys

from takeback.engine.sandbox.fence import DEVICES, REACH, SETTINGS_OF_THE_KERNEL, Fence, noted
from takeback.engine.sandbox.watch import become_supervisor, some_live
from takeback.system import landlock, namespaces, seccomp
from takeback.system.signals import Forwarding

FAILED_BEFORE_START = 125
NOT_FOUND, NOT_RUNNABLE = 127, 126
TOLD_MAX = 5
_ENTERING, _STARTING = b"e", b"s"


def start(fence: Fence, log: str, words: list[str]) -> int:
    """Run a command inside a fence. Return its exit code, negative for a signal, as subprocess does."""
    made = _make_missing(fence)
    told, telling = os.pipe()
    given, giving = socket.socketpair()
    near, far = socket.socketpair()
    with Forwarding() as signals:
        command = os.fork()
        if not command:
            _become_command(fence, words, telling, giving)
        os.close(telling)
        giving.close()
        supervisor = os.fork()
        if not supervisor:
            os.close(told)
            near.close()
            become_supervisor(given, far, fence, log)
        far.close()
        given.close()
        signals.to(lambda number: os.kill(command, number))
        failure = _read_all(told)
        _, status = os.waitpid(command, 0)
        if not some_live(near):
            os.waitpid(supervisor, 0)
    for folder in made:
        _remove_empty(folder)
    if failure:
        return _say_failure(failure, words[0])
    _tell(fence, log)
    return os.waitstatus_to_exitcode(status)


def _become_command(fence: Fence, words: list[str], telling: int, giving: socket.socket) -> None:
    """Enter, and become the user's program. Nothing of this process's parent may run here."""
    stage = _ENTERING
    try:
        for number in (
            signal.SIGTERM,
            signal.SIGHUP,
            signal.SIGUSR1,
            signal.SIGUSR2,
            signal.SIGINT,
            signal.SIGQUIT,
        ):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        enter(fence)
        landlock.end_with_parent()  # a client that kills us for taking too long means the command
        server = _proxied() if fence.hosts else None
        listener = _watched()
        watched = [listener] if listener >= 0 else []
        kinds = b"l" * len(watched) + (b"p" if server else b"")
        fds = [*watched, *([server.fileno()] if server else [])]
        socket.send_fds(giving, [kinds or b"-"], fds)
        giving.close()
        for fd in fds:
            os.close(fd)
        stage = _STARTING
        os.execvp(words[0], words)
    except OSError as error:
        os.write(telling, stage + f"{error.errno or 0} {error.strerror} {error.filename or ''}".encode())
    finally:
        os._exit(FAILED_BEFORE_START)


def _proxied() -> socket.socket:
    """Listen on the private loopback, for the supervisor to serve, and tell programs about it."""
    server = socket.create_server(("127.0.0.1", 0))
    from takeback.engine.sandbox import proxy  # few sandboxes have hosts

    os.environ.update(proxy.environment(server.getsockname()[1]))
    return server


def enter(fence: Fence) -> None:
    """Put this process, and all it will start, inside a fence. Raise OSError if the kernel refuses."""
    if fence.namespaces:
        try:
            namespaces.enter(_isolation(fence))
        except PermissionError:
            if not _is_held_already():
                raise
    if os.geteuid() == 0:
        namespaces.give_up_the_machine()
    places = (*fence.writable, *DEVICES)
    # Without mounts of its own a process of root could reach the settings of the kernel this way.
    if fence.namespaces or os.geteuid():
        places = (*places, "/proc")
    landlock.restrict(places, tcp=fence.network == "full" or fence.namespaces)


def _is_held_already() -> bool:
    """Return whether this process is in a sandbox: then it may not mount, and its outer fence holds it anyway."""
    with open("/proc/self/status") as status:
        found = dict(line.split(":\t", 1) for line in status if ":\t" in line)
    return found.get("NoNewPrivs") == "1\n" and found.get("Seccomp") == "2\n"


def _isolation(fence: Fence) -> namespaces.Isolation:
    writable = [path for path in (*fence.writable, "/dev/shm") if os.path.exists(path)]
    protected = [*fence.protected, *(SETTINGS_OF_THE_KERNEL if os.geteuid() == 0 else ())]
    kept = [path for path in protected if os.path.exists(path)]
    # What something is mounted on cannot be renamed: so no folder with a protected file in it can be moved away.
    above = [folder for path in kept for folder in _between(path, fence.root)]
    return namespaces.Isolation(
        bound=tuple((path, path) for path in dict.fromkeys([*writable, *above])),
        protected=tuple(kept),
        hidden=() if fence.network == "full" else tuple(_sockets()),
        network=fence.network,
        as_root=fence.as_root,
    )


def _between(path: str, root: str) -> list[str]:
    """Return the folders above a path that are below the root."""
    found = []
    while (path := os.path.dirname(path)).startswith(f"{root}/"):
        found.append(path)
    return found


def _sockets() -> list[str]:
    """Return the sockets with a name that processes of this machine listen on now: a service could do the work."""
    try:
        with open("/proc/net/unix", "rb") as file:
            named = {os.fsdecode(line.split(b" /", 1)[1].rstrip(b"\n")) for line in file if b" /" in line}
    except OSError:
        return []
    return [path for name in sorted(named) if _is_socket(path := f"/{name}")]


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


def _watched() -> int:
    """Have attempts reported; return the listener, or -1 if they cannot be. They are denied all the same."""
    if not seccomp.can_watch():
        return -1
    try:
        return seccomp.watch()
    except OSError as error:
        if error.errno == errno.EBUSY:  # a sandbox in a sandbox: the outer one reports
            return -1
        raise


def _make_missing(fence: Fence) -> list[str]:
    """Make the folders that may be written and do not exist: inside, nobody could. Return those that were made."""
    made = []
    for path in fence.writable:
        if not os.path.lexists(path) and os.path.isdir(os.path.dirname(path)):
            try:
                os.mkdir(path, 0o700)
            except OSError:
                continue  # the user could not make it either
            made.append(path)
    return made


def _remove_empty(folder: str) -> None:
    try:
        os.rmdir(folder)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.ENOENT, errno.EBUSY):
            raise


def _read_all(fd: int) -> bytes:
    with os.fdopen(fd, "rb") as pipe:
        return pipe.read()


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _say_failure(failure: bytes, program: str) -> int:
    number, _, why = os.fsdecode(failure[1:]).partition(" ")
    if failure[:1] == _ENTERING:
        _say(f"takeback: the sandbox could not be set up: {why.strip()}. Nothing was started")
        _say("  see why   takeback doctor")
        return FAILED_BEFORE_START
    _say(f"{program}: {os.strerror(int(number))}")
    return NOT_FOUND if int(number) == errno.ENOENT else NOT_RUNNABLE


def _tell(fence: Fence, log: str) -> None:
    """Say once for each path what was denied."""
    found = {denial.path: denial for denial in reversed(noted(log))}
    first = list(reversed(found.values()))
    for denial in first[:TOLD_MAX]:
        _say(f"Takeback: {denial.said}.")
        if fence.tells_how and denial.verb == REACH:
            _say(f'  allow it here   add "{denial.path}" to [sandbox] hosts in takeback.toml')
        elif fence.tells_how and not denial.protected:
            _say(f'  allow it here   add "{denial.path}" to [sandbox] write in takeback.toml')
    if len(first) > TOLD_MAX:
        _say(f"Takeback: the sandbox denied writing {len(first) - TOLD_MAX} more paths.")


def main() -> int:
    """Run the command that is named in the arguments, and end as it ends."""
    place, log, dashes, *words = [*sys.argv[1:], "", "", ""][: max(4, len(sys.argv) - 1)]
    if dashes != "--" or not words[0]:
        _say("usage: takeback-exec FENCE LOG -- COMMAND…   (`takeback run --sandbox` makes the fence)")
        return FAILED_BEFORE_START
    with open(place, "rb") as file:
        fence = Fence.read(file.read())
    code = start(fence, log, words)
    if code < 0:
        # End by the same signal: a shell then says what it would have said without us.
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
        code = 128 - code
    return code
