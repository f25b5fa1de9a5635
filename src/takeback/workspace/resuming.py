"""Continuing an interrupted run: which run is meant, and how to start its program again on this machine."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from takeback.core.entities import RecordedRun
from takeback.core.history import History
from takeback.core.ids import seq_of
from takeback.core.lifecycle import Life
from takeback.errors import BackendError, RefusedError, UsageError

PLAN = ("plan", "run")
SIGNALLED = 128


def command_of(history: History, run: RecordedRun) -> tuple[tuple[str, ...], str]:
    """Return the program of a run and its folder, with paths as in the workspace's present place."""
    here, began = partial(history.moves.here, seq=seq_of(run.id)), run.began
    return tuple(map(here, began.command)), here(began.folder)


def can_be_executed(run: RecordedRun) -> bool:
    """Return True if starting its program again continues this run."""
    return run.life is Life.INTERRUPTED and bool(run.began.key and run.began.command)


def plan_of(history: History, run: RecordedRun) -> list[str]:
    """Return the command that runs the plan of a run again here, or nothing if the run has no plan in a file."""
    words, _ = command_of(history, run)
    for at in range(1, len(words) - 2):
        is_ours = Path(words[at - 1]).name in ("takeback", "__main__.py")
        if is_ours and words[at : at + 2] == PLAN and words[at + 2] != "-":
            return [sys.executable, "-m", "takeback", *words[at:]]
    return []


def program_of(history: History, run: RecordedRun) -> tuple[list[str], str]:
    """Return the command that starts the program of a run again here, and its folder."""
    words, folder = command_of(history, run)
    if words and not os.path.exists(words[0]) and Path(words[0]).name.startswith("python"):
        words = (sys.executable, *words[1:])  # the interpreter of another machine
    return list(words), folder


def chosen(waiting: Sequence[RecordedRun], named: str) -> RecordedRun:
    """Return the one run whose program can be started again. Raise UsageError or RefusedError if there is none."""
    able = [run for run in waiting if can_be_executed(run)]
    if len(able) == 1:
        return able[0]
    if len(able) > 1:
        names = ", ".join(run.id for run in able)
        raise UsageError(f"there are several runs to continue: {names}; nothing was started", hint="name one")
    if not named:
        raise UsageError(
            "there is no run whose program could be started again; nothing was started",
            hint="`takeback resume` lists the runs",
        )
    (run,) = waiting
    if run.life is Life.HANDED_OVER:
        raise RefusedError(
            f"{run.id} waits for a human; nothing was started",
            hint=f"`takeback handover return {run.id}` first",
        )
    if not run.began.key:
        raise UsageError(
            f"{run.id} has no key, so its program would begin a new run; nothing was started",
            hint=f"tb.run(name, key=...) can be continued; this one can be taken back: takeback undo {run.id}",
        )
    raise UsageError(
        f"the command line of {run.id} was not recorded; nothing was started",
        hint="start your program again yourself: it finds the run by its key",
    )


def start(program: tuple[list[str], str], run: RecordedRun) -> int:
    """Run the program of a run again in our terminal, and return its exit code as a shell would."""
    words, folder = program
    sys.stdout.flush()
    try:
        done = subprocess.run(words, cwd=folder or None)
    except OSError as error:
        raise BackendError(
            f"{shlex.join(words)} cannot be started: {error.strerror}; {run.id} is unchanged",
            hint="start your program again yourself: it finds the run by its key",
        ) from error
    return done.returncode if done.returncode >= 0 else SIGNALLED - done.returncode
