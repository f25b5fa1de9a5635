"""Kill a real process at a named place, or make a named place fail.

    python -m takeback.testing.crash POINT N -- takeback undo
    python -m takeback.testing.crash POINT N -- package.module:function ARG…

The process kills itself with SIGKILL when it reaches the crash point for the N-th time, so that nothing is
cleaned up. `run` does the same from a test.
"""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module, metadata
from pathlib import Path

from takeback.system import crash_points

KILLED = -signal.SIGKILL
"""The exit code, as in `subprocess`, of a process that reached its crash point."""


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def at(point: str, do: Callable[[], object], *, nth: int = 1) -> Iterator[Counter[str]]:
    """Call `do` at the N-th pass of a crash point in this process. Yield the count of all passes.

    `do` usually raises: `with at("disk-sync", disk_full): …`.
    """
    passes: Counter[str] = Counter()

    def hook(name: str) -> None:
        passes[name] += 1
        if name == point and passes[name] == nth:
            do()

    with hooked(hook):
        yield passes


@contextmanager
def hooked(hook: crash_points.Hook) -> Iterator[None]:
    """Call this hook at each crash point that is passed in this process."""
    before = crash_points.set_hook(hook)
    try:
        yield
    finally:
        crash_points.set_hook(before)


def run(
    point: str, nth: int, command: Sequence[str | Path], *, timeout_s: float = 60, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in a separate process that is killed at a crash point; `returncode` is then KILLED.

    The command is `takeback …`, or `package.module:function` with text arguments. The child imports from
    where this process does.
    """
    return subprocess.run(
        [sys.executable, "-m", "takeback.testing.crash", point, str(nth), "--", *map(str, command)],
        env=child_environment(),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )


def child_environment() -> dict[str, str]:
    """Return the environment of a child that imports from where this process does."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}


def main(arguments: Sequence[str]) -> None:
    match arguments:
        case [point, nth, "--", command, *rest] if nth.isdecimal():
            with at(point, kill_self, nth=int(nth)):
                _call(command, rest)
        case _:
            raise SystemExit("usage: python -m takeback.testing.crash POINT N -- COMMAND [ARG…]")


def _call(command: str, arguments: list[str]) -> None:
    """Call a function by its dotted name, or a command as its script would."""
    module, _, name = command.partition(":")
    if name:
        getattr(import_module(module), name)(*arguments)
        return
    sys.argv = [command, *arguments]
    scripts = metadata.entry_points(group="console_scripts", name=command)
    if scripts:
        sys.exit(next(iter(scripts)).load()())
    runpy.run_module(command, run_name="__main__", alter_sys=False)


if __name__ == "__main__":
    main(sys.argv[1:])
