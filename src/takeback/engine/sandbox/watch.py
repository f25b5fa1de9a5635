"""The supervisor of a sandbox: hears what its processes attempt to write, and notes what is denied.

It lives as long as any process in there lives, so its end is also how the end of the last one is known.
"""

from __future__ import annotations

import os
import select
import signal
import socket

from takeback.engine.sandbox.fence import REACH, Denial, Fence, real
from takeback.system import seccomp

DENIALS_MAX = 1000
_STILL, _ASKED = b"s", b"?"
_NOT_FOLLOWED = ("make", seccomp.LINK, "remove", "rename")
_REPLACING = (seccomp.LINK, "rename")
"""Attempts after which everything below a path may be something else."""


class Notes:
    """The file in which denials are noted, each once."""

    def __init__(self, log: str) -> None:
        self._log = log
        self._noted: set[tuple[str, str]] = set()

    def add(self, denial: Denial) -> None:
        known = (denial.verb, denial.path)
        if not self._log or known in self._noted or len(self._noted) >= DENIALS_MAX:
            return
        self._noted.add(known)
        fd = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, denial.written())
        finally:
            os.close(fd)


class Supervisor:
    """Answers the attempts of one sandbox."""

    def __init__(self, listener: int, fence: Fence, notes: Notes) -> None:
        self._listener = listener
        self._fence = fence
        self._notes = notes

    def serve(self, starter: socket.socket) -> None:
        """Answer until no process of the sandbox lives. Tell the starter, when it asks, that some still do."""
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        poll.register(starter, select.POLLIN)
        while True:
            ready = dict(poll.poll())
            found = ready.get(self._listener, 0)
            if found & select.POLLIN:
                self._answer()
            elif found & (select.POLLHUP | select.POLLERR):
                return
            elif starter.fileno() in ready:
                # Asked only once the command itself has ended: whatever lives now goes on in the background.
                if starter.recv(1) == _ASKED:
                    _send(starter, _STILL)
                poll.unregister(starter)

    def _answer(self) -> None:
        attempt = seccomp.next_attempt(self._listener)
        if attempt is None:
            return
        denied = self._denied(attempt)
        for denial in denied:
            self._notes.add(denial)
        seccomp.answer(self._listener, attempt, refuse=bool(denied))

    def _denied(self, attempt: seccomp.Attempt) -> list[Denial]:
        """Return what is denied of an attempt. What would fail without a sandbox, too, is left to the kernel."""
        shape = attempt.shape
        written = seccomp.paths_of(self._listener, attempt)
        paths = [real(path, follow=shape.verb not in _NOT_FOLLOWED) for path in written]
        outside = [
            path for path in paths if not self._fence.is_writable(path) or self._replaces(shape.verb, path)
        ]
        if not outside or not all(_could(attempt, path) for path in paths[:1]):
            return []
        allowed = [path for path in outside if self._is_real_place(path)]
        return [Denial(shape.verb, path, self._is_protected(path), _program(attempt.pid)) for path in allowed]

    def _is_real_place(self, path: str) -> bool:
        return _may_write_in(os.path.dirname(path)) or os.access(path, os.W_OK)

    def _replaces(self, verb: str, path: str) -> bool:
        replacing = verb in _REPLACING or (verb == "remove" and os.path.islink(path))
        return replacing and self._fence.holds_protected(path)

    def _is_protected(self, path: str) -> bool:
        return self._fence.is_protected(path) or self._fence.holds_protected(path)


def _could(attempt: seccomp.Attempt, path: str) -> bool:
    """Return whether the kernel would do it for this user, if there were no sandbox."""
    shape, there = attempt.shape, os.path.lexists(path)
    if shape.verb == "write":
        creates = shape.flags < 0 or attempt.arguments[shape.flags] & os.O_CREAT
        return os.access(path, os.W_OK) if there else bool(creates) and _may_write_in(os.path.dirname(path))
    if shape.makes:
        return not there and _may_write_in(os.path.dirname(path))
    if shape.verb in _NOT_FOLLOWED:
        return there and _may_write_in(os.path.dirname(path))
    return there and (os.geteuid() in (0, os.lstat(path).st_uid) or os.access(path, os.W_OK))


def _may_write_in(folder: str) -> bool:
    return os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)


def _program(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return ""


def become_supervisor(given: socket.socket, starter: socket.socket, fence: Fence, log: str) -> None:
    """Be the supervisor, in a process that was forked for it: receive the listener, serve, end."""
    code = 1
    try:
        os.setsid()  # a terminal's signals are for the command
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP):
            signal.signal(number, signal.SIG_IGN)
        # Whoever waits for the end of the command's output does not wait for us.
        nothing = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nothing, standard)
        kinds, fds, _, _ = socket.recv_fds(given, 2, 2)
        given.close()
        found = dict(zip(kinds.decode(), fds, strict=False))
        noting = Notes(log)
        if "p" in found:
            server = socket.socket(fileno=found["p"])
            from takeback.engine.sandbox.proxy import Proxy  # few sandboxes have hosts

            Proxy(server, fence.hosts, lambda host: noting.add(Denial(REACH, host))).start()
        if "l" in found:
            Supervisor(found["l"], fence, noting).serve(starter)
        elif "p" in found:
            starter.recv(1)  # until the command has ended
        code = 0
    finally:
        os._exit(code)


def _send(starter: socket.socket, what: bytes) -> None:
    try:
        starter.send(what)
    except OSError:
        return  # it has ended


def some_live(starter: socket.socket) -> bool:
    """Ask the supervisor whether processes of the sandbox are left. The command itself must have been reaped."""
    try:
        starter.send(_ASKED)
        return starter.recv(1) == _STILL
    except OSError:
        return False
