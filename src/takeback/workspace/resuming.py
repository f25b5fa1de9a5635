"""Going on with a run that was interrupted: which one is meant, and how its program is started again, here."""

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
    """The program of a run and its folder, as they are where the workspace sits now."""
    here, began = partial(history.moves.here, seq=seq_of(run.id)), run.began
    return tuple(map(here, began.command)), here(began.folder)


def can_be_executed(run: RecordedRun) -> bool:
    """Whether starting its program again goes on with this very run."""
    return run.life is Life.INTERRUPTED and bool(run.began.key and run.began.command)


def plan_of(history: History, run: RecordedRun) -> list[str]:
    """How the plan that a run carries out is run again, here; nothing where it is no plan in a file."""
    words, _ = command_of(history, run)
    for at in range(1, len(words) - 2):
        is_ours = Path(words[at - 1]).name in ("takeback", "__main__.py")
        if is_ours and words[at : at + 2] == PLAN and words[at + 2] != "-":
            return [sys.executable, "-m", "takeback", *words[at:]]
    return []


def program_of(history: History, run: RecordedRun) -> tuple[list[str], str]:
    """How the program of a run is started again, here, and in which folder."""
    words, folder = command_of(history, run)
    if words and not os.path.exists(words[0]) and Path(words[0]).name.startswith("python"):
        words = (sys.executable, *words[1:])  # the interpreter of another machine
    return list(words), folder


def chosen(waiting: Sequence[RecordedRun], named: str) -> RecordedRun:
    """Return the run whose program is to be started again; UsageError or RefusedError where there is not one."""
    able = [run for run in waiting if can_be_executed(run)]
    if len(able) == 1:
        return able[0]
    if len(able) > 1:
        names = ", ".join(run.id for run in able)
        raise UsageError(f"there are several runs to continue: {names}; nothing was started", hint="name one")
    if not named:
        raise UsageError(
            "there is no run whose program could be started again; nothing was started",
            hint="`takeback resume` lists what there is",
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


def start(history: History, run: RecordedRun) -> int:
    """Run the program of a run again, with our terminal, and return its exit code as a shell would say it."""
    words, folder = program_of(history, run)
    sys.stdout.flush()
    try:
        done = subprocess.run(words, cwd=folder or None)
    except OSError as error:
        raise BackendError(
            f"{shlex.join(words)} cannot be started: {error.strerror}; {run.id} is as it was",
            hint="start your program again yourself: it finds the run by its key",
        ) from error
    return done.returncode if done.returncode >= 0 else SIGNALLED - done.returncode
