"""Takeback as a process: started, signalled, on a terminal, or without the rights of root."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO

from tests.world.cli import Result, Workspace, environment

PYTHON = sys.executable

Output = int | IO[bytes] | None


def start(
    world: Workspace,
    *words: str,
    stdout: Output = subprocess.PIPE,
    stdin: Output = subprocess.DEVNULL,
    program: str = "takeback",
) -> subprocess.Popen[bytes]:
    """Begin a command and do not wait for it."""
    return subprocess.Popen(
        [PYTHON, "-m", program, *words],
        cwd=world.root,
        env=environment(world.home),
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
    )


def ended(process: subprocess.Popen[bytes]) -> Result:
    out, err = process.communicate(timeout=60)
    return Result(process.returncode, (out or b"").decode(), (err or b"").decode())


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill it, and nothing that it started."""
    process.kill()
    process.wait()
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    process.stderr.close()


def wait_for(condition: Callable[[], object], *, seconds: float = 30) -> None:
    """Until something is so; never for a while."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.01)


def wait_for_file(path: Path) -> None:
    wait_for(path.exists)


def wait_for_proof(world: Workspace, id: str, name: str) -> None:
    """Wait until it is provable that this action wrote this file: its owner has shown a sign of life since then, or
    the action has ended."""
    written_ns = (world.root / name).stat().st_ctime_ns

    def is_proved() -> bool:
        try:
            return (next(world.home.rglob("alive")) / id).stat().st_mtime_ns > written_ns
        except FileNotFoundError:  # the sign is removed with the action's end
            return True

    wait_for(is_proved)


def until(path: str) -> str:
    """Shell words that wait for a file, but not for ever: a test that failed leaves nothing behind."""
    return f"n=0; until [ -e {path} ] || [ $((n=n+1)) -gt 3000 ]; do sleep 0.01; done"


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    try:
        return _state(pid) == "Z"
    except OSError:
        return True


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def end_command(pid: int) -> None:
    """Kill a command, and what it is just running: nothing of it is settled while one of its processes lives."""
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: _state(pid) == "T")  # from now on it starts nothing
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for one in [pid, *map(int, children)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
        wait_for(partial(is_gone, one))


def on_terminal(
    world: Workspace,
    *words: str,
    env: Mapping[str, str | None] | None = None,
    program: Sequence[str] = (),
    answer: str = "",
) -> tuple[int, str]:
    """Run a command on a terminal of its own, and type an answer: its exit code and all that was shown."""
    surroundings = environment(world.home) | {"TERM": "xterm-256color"}
    del surroundings["NO_COLOR"]
    for name, value in (env or {}).items():
        if value is not None:
            surroundings[name] = value
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(world.root)
        os.execve(PYTHON, [PYTHON, *(program or ("-m", "takeback")), *words], surroundings)
    if answer:
        os.write(fd, f"{answer}\n".encode())
    shown = b""
    with contextlib.suppress(OSError):  # the terminal goes away with its last user
        while data := os.read(fd, 65536):
            shown += data
    os.close(fd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode()


# Permissions do not bind root. These let it pass, and a process can give them up for good.
_OVERRIDE, _READ_SEARCH, _FOWNER, _SETFCAP = 1, 2, 3, 31
_PR_CAPBSET_DROP = 24


def give_up_root() -> None:
    """In a child before it begins: from its exec on, permissions bind it as they bind anybody."""
    if os.geteuid() == 0:
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        for capability in (_OVERRIDE, _READ_SEARCH, _FOWNER, _SETFCAP):
            if prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "a capability cannot be given up")


def bound(world: Workspace, *words: str, code: int = 0) -> Result:
    """Run a command that permissions bind; it must end with this exit code."""
    done = bound_process(world, "takeback", *words)
    result = Result(done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in result.said and "bug in Takeback" not in result.said, result
    assert result.code == code, (words, result)
    return result


def bound_process(world: Workspace, module: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a module of Python that permissions bind, to its end or until it is killed."""
    return subprocess.run(
        [PYTHON, "-m", module, *words],
        cwd=world.root,
        env=environment(world.home),
        capture_output=True,
        text=True,
        preexec_fn=give_up_root,
        timeout=60,
    )
