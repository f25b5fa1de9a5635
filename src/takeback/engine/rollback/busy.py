"""Waiting for an open action to end, and saying so: whoever asked for an undo should not look at nothing."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable

from takeback.core.entities import RecordedAction
from takeback.core.history import History
from takeback.core.lifecycle import Life
from takeback.engine.tracking.tracker import Tracker
from takeback.errors import RunBusy
from takeback.system import processes

BUSY_WAIT_S = 10.0
BUSY_POLL_S = 0.05
TELL_AFTER_S = 0.5
_log = logging.getLogger("takeback")


class BusyWait:
    """One wait, from its beginning."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._told = False

    def a_moment(self, history: History, action: RecordedAction) -> None:
        """Wait a little for this action; RunBusy when that has been long enough, or would be for ever.

        Not under the lock: the action needs it to end.
        """
        waited_s = time.monotonic() - self._began_s
        if asks(history, action):
            raise RunBusy(
                f"this was asked from inside {action.id} ({action.name}), which has not ended; nothing was done",
                hint="run it as a command of its own, with nothing before, after or around it",
            )
        if is_mine(action) or waited_s > BUSY_WAIT_S:
            raise RunBusy(
                f"{action.id} ({action.name}) is still running; nothing was taken back",
                hint=_how_it_ends(history, action),
            )
        if waited_s > TELL_AFTER_S and not self._told:
            self._told = True
            _log.warning("waiting for %s (%s) to end", action.id, action.name[:60])
        time.sleep(BUSY_POLL_S)


def refuse_background(tracker: Tracker, actions: Iterable[str]) -> None:
    """While what it started is at work, an action would go on writing over what was put back."""
    history = tracker.ledger.history
    chosen = frozenset(actions)
    for action in history.open_actions(Life.BACKGROUND):
        # Where there is nothing to take back yet, there may be in a moment.
        if action.id not in chosen and (chosen or not action.processes):
            continue
        if living := tracker.living(action.id):
            numbers = ", ".join(map(str, living))
            raise RunBusy(
                f"{action.id} still has processes running ({numbers}); nothing was taken back",
                hint=f"stop them first: kill {' '.join(map(str, living))}",
            )
        if tracker.lives_on(action):
            raise RunBusy(
                f"{action.id} ({action.name}) is at work in the background; nothing was taken back",
                hint=f"have its agent stop it; if it is over already, say so: takeback resume {action.stream}",
            )


def _how_it_ends(history: History, action: RecordedAction) -> str:
    run = history.runs.get(action.stream)
    if run and run.began.detached:
        return (
            "wait for it to end; if nothing is at work there, as when you refused it or its agent is gone, say so: "
            f"takeback resume {run.id}"
        )
    return "wait for it to end, or stop it, and try again"


def asks(history: History, action: RecordedAction) -> bool:
    """Whether it is from inside of this action that it is waited for, so that it would never end.

    All calls of an agent are below its process. Of these it is the one that names us.
    """
    process = action.process
    if process is None or process.pid == os.getpid() or process not in processes.lineage():
        return False
    run = history.runs.get(action.stream)
    return not (run and run.began.detached) or "takeback" in str(action.as_tool.arguments)


def is_mine(action: RecordedAction) -> bool:
    """Whether this very process is at work on it, so that waiting for it would never end."""
    process = action.process
    return process is not None and process.pid == os.getpid()
