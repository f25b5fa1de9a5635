"""Refusals that several uses of a workspace share: what only a human may do, and what waits while work goes on."""

from __future__ import annotations

from takeback.core.history import History
from takeback.core.lifecycle import Life
from takeback.errors import RefusedError, RunBusy
from takeback.system import processes


def at_work_around(history: History) -> str:
    """Return the action or session of whose processes this one is, by its ancestors; empty if there is none."""
    line = processes.lineage()
    running = (a.id for a in history.open_actions() if a.process in line)
    # The agent of a session is also inside it between its calls.
    led = (run.id for run in history.open_runs() if run.began.detached and run.began.process in line)
    return next(running, "") or next(led, "")


def refuse_agent(inside: str, why: str, *, done: str = "changed") -> None:
    """Raise RefusedError if this process runs inside an action, the one named by `inside`."""
    if inside:
        raise RefusedError(
            f"this runs inside {inside}: {why}. Nothing was {done}", hint="do it from your own terminal"
        )


def refuse_busy_actions(history: History, *, done: str) -> None:
    """Raise RunBusy while an action runs, in the background or not."""
    for action in (*history.open_actions(), *history.open_actions(Life.BACKGROUND)):
        raise RunBusy(
            f"{action.id} ({action.name}) is at work; nothing was {done}",
            hint="wait until it ends, or stop it, and try again",
        )


def refuse_at_work(history: History, *, done: str) -> None:
    """Raise RunBusy while an action or a run is at work."""
    refuse_busy_actions(history, done=done)
    for run in history.open_runs():
        raise RunBusy(
            f"{run.id} ({run.began.name}) is at work; nothing was {done}",
            hint=f"end it, and try again; if its program is not running any more: takeback resume {run.id}",
        )
