"""Forks of this process that run a program, and may be killed at the n-th named place that they pass."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import takeback.workspace.workspace  # noqa: F401  what declares its places is loaded before the fork
from takeback.errors import TakebackError
from takeback.system import crash_points

KILLED = -signal.SIGKILL
BROKEN = 70
"""The exit code of a program that raised an error which is not Takeback's."""

Program = Callable[..., object]


def start(program: Program, *given: Any, hook: crash_points.Hook | None = None, errors: Path) -> int:
    """Run a program in a fork, and return its process id.

    Its exit code is 0, that of a Takeback error, or BROKEN with the trace in `errors`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # forks beside threads: the child uses none of them
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
    if pid:
        return pid
    code = BROKEN
    with contextlib.suppress(BaseException):
        try:
            # These programs write the same again when they are started again; of two at once each sees the other.
            warnings.filterwarnings("ignore", "step .* was already done", UserWarning)
            crash_points.set_hook(hook)
            program(*given)
            code = 0
        except TakebackError as error:
            code = error.exit_code
            errors.open("a").write(f"{type(error).__name__}: {error}\n")
        except BaseException:  # noqa: BLE001  whatever it is, the parent must hear of it
            errors.open("a").write(traceback.format_exc())
    os._exit(code)


def end(pid: int) -> int:
    """Wait for a fork, and return its exit code as `subprocess` does."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def run(program: Program, *given: Any, errors: Path) -> int:
    """Run a program in a fork to its end, and return its exit code."""
    return end(start(program, *given, errors=errors))


def places(program: Program, *given: Any, errors: Path) -> list[str]:
    """Return every named place that a program passes, in order."""
    reader, writer = os.pipe()
    with open(reader) as pipe:
        pid = start(program, *given, hook=lambda name: _tell(writer, name), errors=errors)
        os.close(writer)
        passed = pipe.read().split()
    end(pid)
    return passed


def _tell(writer: int, name: str) -> None:
    os.write(writer, f"{name}\n".encode())


def killed_at(place: int | str, program: Program, *given: Any, errors: Path) -> bool:
    """Kill a program at the n-th place that it passes, or at the first of a name; False if it ended before."""
    left = place if isinstance(place, int) else 1

    def count_down(name: str) -> None:
        nonlocal left
        left -= isinstance(place, int) or name == place
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return end(start(program, *given, hook=count_down, errors=errors)) == KILLED
