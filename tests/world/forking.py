"""A Python that has read its modules and is forked for each command, which so need not read them again.

To read them takes longer than most of what a test asks of a command. Who waits here was started for nothing else and
has no thread and no open file. Each fork is the command from its first line to its exit, with a folder, environment,
umask and output of its own.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module

OFTEN = ("run", "undo", "redo", "save", "restore", "status", "log", "diff", "verify", "gc")
COMMANDS = tuple(
    f"takeback.{name}"
    for name in ("workspace.opening", "cli.app", *(f"cli.commands.{command}" for command in OFTEN))
)
"""What Takeback itself is read from beforehand."""

EARLY = ("PYTHON", "LD_", "LC_", "LANG", "TZ", "TAKEBACK_ACTION")
"""How variables begin that a process must have from its start: Python, libc or a look into /proc wants them."""


def early(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(EARLY)}


class Nursery:
    """The one who waits, as tests see it. It has read these modules."""

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        python: str = sys.executable,
        modules: Sequence[str] = COMMANDS,
    ) -> None:
        self._early = early(env)
        self._line, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [python, "-m", __name__, str(theirs.fileno()), *modules],
                env=env,
                cwd="/",
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self.close)

    def close(self) -> None:
        """It ends when nobody is left who could ask."""
        self._line.close()
        self._process.wait()

    def suits(self, env: Mapping[str, str]) -> bool:
        """Whether a command may have this environment without a process that starts with it."""
        return early(env) == self._early

    def run(
        self,
        args: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        timeout_s: float,
        umask: int = -1,
        program: str = "takeback",
    ) -> tuple[int, bytes, bytes]:
        """Run `python -m PROGRAM` to its end: its exit code and what it said, as `subprocess.run` would give them."""
        talk, talk_theirs = socket.socketpair()
        (out, out_theirs), (err, err_theirs) = os.pipe(), os.pipe()
        with talk, open(out, "rb"), open(err, "rb"):
            with talk_theirs, open(out_theirs, "wb"), open(err_theirs, "wb"):
                socket.send_fds(self._line, [b"."], [talk_theirs.fileno(), out_theirs, err_theirs])
            pid = _heard(talk)
            try:
                talk.sendall(json.dumps([program, list(args), cwd, dict(env), umask]).encode())
                talk.shutdown(socket.SHUT_WR)
                said = _read_all(out, err, time.monotonic() + timeout_s)
                return _heard(talk), *said
            except BaseException:
                os.kill(pid, signal.SIGKILL)
                raise


def _heard(talk: socket.socket) -> int:
    data = talk.recv(4, socket.MSG_WAITALL)
    assert len(data) == 4, "the process that is forked for commands is gone"
    return int.from_bytes(data, "little", signed=True)


def _told(talk: socket.socket, number: int) -> None:
    try:
        talk.sendall(number.to_bytes(4, "little", signed=True))
    except BrokenPipeError:
        pass  # whoever asked has gone


def _read_all(out: int, err: int, deadline: float) -> tuple[bytes, bytes]:
    read: dict[int, bytearray] = {out: bytearray(), err: bytearray()}
    with selectors.DefaultSelector() as selector:
        for fd in read:
            selector.register(fd, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError("the command does not end")
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                read[key.fd] += data
                if not data:
                    selector.unregister(key.fd)
    return bytes(read[out]), bytes(read[err])


# The one who waits, inside.


def serve(line: socket.socket) -> None:
    """Fork for each that asks, and tell how it ended. A fork leaves here by an exception, as any command ends."""
    selector = selectors.DefaultSelector()
    selector.register(line, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.data:
                pid, talk = key.data
                selector.unregister(key.fd)
                os.close(key.fd)
                with talk:
                    _told(talk, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                continue
            data, fds, _, _ = socket.recv_fds(line, 1, 3, socket.MSG_CMSG_CLOEXEC)
            if not data:
                return
            talk = socket.socket(fileno=fds[0])
            pid = os.fork()
            if pid == 0:
                selector.close()
                line.close()
                _be_the_command(talk, *fds[1:])
            for fd in fds[1:]:
                os.close(fd)
            _told(talk, pid)
            selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, talk))


def _be_the_command(talk: socket.socket, out: int, err: int) -> None:
    with talk, talk.makefile("rb") as request:
        program, args, cwd, env, umask = json.load(request)
    for fd, place in ((out, 1), (err, 2)):
        os.dup2(fd, place)
        os.close(fd)
    os.chdir(cwd)
    if umask >= 0:
        os.umask(umask)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = [program, *args]
    sys.orig_argv = [sys.executable, "-m", *sys.argv]
    runpy.run_module(program, run_name="__main__", alter_sys=True)
    sys.exit()


def main(line: int, *modules: str) -> None:
    for name in modules:
        import_module(name)
    gc.freeze()
    serve(socket.socket(fileno=line))


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
