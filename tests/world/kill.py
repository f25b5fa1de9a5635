"""Kill -9 a real process at a chosen place: the n-th named place that it passes.

The process is a fork, so that hundreds of them take seconds. In it the command line runs as always; the only
difference is the hook that every named place calls.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import takeback.workspace.workspace  # noqa: F401  what declares its places is loaded before the fork
from takeback.cli import main
from takeback.system import crash_points

KILLED = -signal.SIGKILL


def places_of(command: Sequence[str], *, cwd: Path, home: Path) -> list[str]:
    """Every named place that a command passes, in order; the command runs to its end."""
    reader, writer = os.pipe()
    with open(reader) as pipe:
        pid = _start(command, lambda name: _tell(writer, name), cwd=cwd, home=home)
        os.close(writer)
        passed = pipe.read().split()
    assert _end(pid) == 0, f"takeback {' '.join(command)} failed"
    return passed


def _tell(writer: int, name: str) -> None:
    os.write(writer, f"{name}\n".encode())


def killed_at(place: int, command: Sequence[str], *, cwd: Path, home: Path) -> bool:
    """Kill a command at the n-th place that it passes; False if it ended before."""
    left = place

    def count_down(_: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return _end(_start(command, count_down, cwd=cwd, home=home)) == KILLED


def finish(command: Sequence[str], *, cwd: Path, home: Path) -> int:
    """Run a command to its end, and give its exit code."""
    return _end(_start(command, lambda _: None, cwd=cwd, home=home))


def _end(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _start(command: Sequence[str], hook: Callable[[str], None], *, cwd: Path, home: Path) -> int:
    with warnings.catch_warnings():
        # Newer versions of Python warn of forks beside threads; the child uses none that the parent had.
        warnings.simplefilter("ignore", DeprecationWarning)
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
    if pid:
        return pid
    code = 70
    with contextlib.suppress(BaseException):
        try:
            _become(command, cwd, home)
            crash_points.set_hook(hook)
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    os._exit(code)


def _become(command: Sequence[str], cwd: Path, home: Path) -> None:
    """In the child: be the command line."""
    os.chdir(cwd)
    os.environ["TAKEBACK_HOME"] = str(home)
    sys.argv = ["takeback", *command]
    quiet = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(quiet, fd)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115  pytest's own is of no use here
    sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
