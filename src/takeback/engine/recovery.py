"""Settling what a crash left open, by looking at the world and never by guessing."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from takeback.core import events as e
from takeback.core.change import Change
from takeback.core.history import Action
from takeback.core.lifecycle import Life
from takeback.engine import processes
from takeback.engine.tracker import Tracker, shared


def settle(tracker: Tracker) -> list[str]:
    """Judge every open action whose process is gone; returns what was done, in words. Under the lock."""
    history = tracker.ledger.history
    notes = []
    for action in [*history.open_actions(), *history.open_actions(Life.BACKGROUND)]:
        if not action.is_tool or tracker.living(action.id):
            continue
        if action.life is Life.BACKGROUND:
            _end_background(tracker, action)
        elif not processes.is_alive(getattr(action.began, "process", None)):
            notes.append(_settle_one(tracker, action))
    return notes


def _end_background(tracker: Tracker, action: Action) -> None:
    """Its last process has ended. What changed since the last look may be its own or a human's."""
    marks = tracker.marks()
    others = [owner for owner in tracker.owners() if owner is not action]
    changes = shared(tracker.since_last(marks), others, in_doubt=True)
    outcome = e.Outcome.FAILED if action.exit_code else e.Outcome.DONE
    ended = e.ActionEnded(action.id, outcome, changes, marks, "its last process has ended", action.exit_code)
    tracker.ledger.append([ended, e.RunEnded(outcome)], action.stream)


def _settle_one(tracker: Tracker, action: Action) -> str:
    marks = tracker.marks()
    others = [owner for owner in tracker.owners() if owner is not action]
    changes = _attributed(tracker, action, tracker.since_last(marks), others)
    happened = bool(changes or action.made)
    unsure = sum(change.in_doubt for change in changes)
    why = f"its process died; {len(changes) - unsure} changes are provably its own, {unsure} are in doubt"
    settled = e.ActionSettled(action.id, happened, changes, marks, why if happened else "nothing had changed")
    tracker.ledger.append([settled, e.RunInterrupted("its process died")], action.stream)
    return f"{action.id} ({action.name}) was interrupted: {settled.why}"


def _attributed(
    tracker: Tracker, action: Action, changes: Sequence[Change], others: Sequence[Action]
) -> tuple[Change, ...]:
    """Only what changed while the action's owner showed signs of life is provably the action's."""
    last_sign_ns = sign_of_life(tracker, action.id)
    marked = []
    for change in shared(changes, others):
        resource = tracker.resources[change.target.resource]
        proved = 0 < resource.changed_at(change.target) <= last_sign_ns
        marked.append(change if proved else msgspec.structs.replace(change, in_doubt=True))
    return tuple(marked)


def sign_of_life(tracker: Tracker, action_id: str) -> int:
    """When the action's owner was last known to live, in nanoseconds; 0 where nobody knows."""
    try:
        return os.stat(tracker.alive / action_id).st_mtime_ns
    except FileNotFoundError:
        return 0


def show_life(tracker: Tracker, action_id: str) -> None:
    """Say that the owner of this action lives."""
    path = tracker.alive / action_id
    try:
        os.utime(path)
    except FileNotFoundError:
        tracker.alive.mkdir(mode=0o700, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def end_life(tracker: Tracker, action_id: str) -> None:
    """The action has a recorded end; its sign of life is not needed any more."""
    try:
        os.unlink(tracker.alive / action_id)
    except FileNotFoundError:
        return
