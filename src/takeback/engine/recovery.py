"""Settling what a crash left open, by looking at the world and never by guessing."""

from __future__ import annotations

from takeback.core import events as e
from takeback.core.history import Action
from takeback.core.lifecycle import Life
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
        elif not tracker.is_guarded(action):
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
    changes = tracker.proved(action, shared(tracker.since_last(marks), others))
    happened = bool(changes or action.made)
    unsure = sum(change.in_doubt for change in changes)
    why = f"its process died; {len(changes) - unsure} changes are provably its own, {unsure} are in doubt"
    settled = e.ActionSettled(action.id, happened, changes, marks, why if happened else "nothing had changed")
    tracker.ledger.append([settled, e.RunInterrupted("its process died")], action.stream)
    return f"{action.id} ({action.name}) was interrupted: {settled.why}"
