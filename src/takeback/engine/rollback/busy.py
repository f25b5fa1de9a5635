"""Waiting for an open action to end, and reporting that to the user."""

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
    """One wait, timed from its beginning."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._told = False

    def a_moment(self, history: History, action: RecordedAction) -> None:
        """Wait briefly for this action. Raise RunBusy after the whole wait, or at once if it would never end.

        Called without the lock, which the action needs to end.
        """
        waited_s = time.monotonic() - self._began_s
        if asks(history, action):
            raise RunBusy(
                f"this command runs inside {action.id} ({action.name}), which has not ended; nothing was done",
                hint="run it as a separate command, with nothing before, after or around it",
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
    """Raise RunBusy if one of these actions has running processes, which would overwrite what is put back."""
    history = tracker.ledger.history
    chosen = frozenset(actions)
    for action in history.open_actions(Life.BACKGROUND):
        # If there is nothing to take back yet, there may be in a moment.
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
                hint=f"let its agent stop it; if it has already ended, run: takeback resume {action.stream}",
            )


def _how_it_ends(history: History, action: RecordedAction) -> str:
    run = history.runs.get(action.stream)
    if run and run.began.detached:
        return (
            "wait for it to end; if it is not running, because you refused it or its agent is gone, run: "
            f"takeback resume {run.id}"
        )
    return "wait for it to end, or stop it, and try again"


def asks(history: History, action: RecordedAction) -> bool:
    """Return True if this process runs inside `action`, so that waiting for it would deadlock.

    All calls of an agent are children of the agent; among them, pick the one whose command mentions takeback.
    """
    process = action.process
    if process is None or process.pid == os.getpid() or process not in processes.lineage():
        return False
    run = history.runs.get(action.stream)
    return not (run and run.began.detached) or "takeback" in str(action.as_tool.arguments)


def is_mine(action: RecordedAction) -> bool:
    """Return whether this process itself runs the action, so that waiting for it would deadlock."""
    process = action.process
    return process is not None and process.pid == os.getpid()
