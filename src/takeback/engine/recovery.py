"""Settling what a crash left open, by looking at the world and never by guessing."""

from __future__ import annotations

from takeback.core import events as e
from takeback.core.lifecycle import Life
from takeback.core.subjects import Action, Run
from takeback.engine.calls import Calls, change_of
from takeback.engine.tracker import Tracker, shared


def settle(tracker: Tracker, calls: Calls) -> list[str]:
    """Judge every open action whose process is gone; returns what was done, in words. Under the lock."""
    history = tracker.ledger.history
    notes = []
    # The innermost first: what changed since the last look is theirs.
    for action in reversed([*history.open_actions(), *history.open_actions(Life.BACKGROUND)]):
        guarded = action.life is Life.OPEN and tracker.is_guarded(action)
        if not action.is_tool or guarded or tracker.living(action.id):
            continue
        if action.life is Life.BACKGROUND:
            _end_background(tracker, action)
        else:
            is_call = not getattr(action.began, "marks", ())
            notes.append(_settle_call(tracker, calls, action) if is_call else _settle_one(tracker, action))
    for run in history.open_runs():
        running = any(history.actions[id].life in (Life.OPEN, Life.BACKGROUND) for id in run.actions)
        if not running and not _is_led(tracker, run):
            tracker.ledger.append([e.RunInterrupted("its process died")], run.id)
    return notes


def _is_led(tracker: Tracker, run: Run) -> bool:
    """Whether the process that conducts the run still lives."""
    history = tracker.ledger.history
    return any(tracker.is_guarded(history.actions[id]) for id in reversed(run.actions))


def _settle_call(tracker: Tracker, calls: Calls, action: Action) -> str:
    """A call is judged by its check."""
    seen = calls.look_at(action)
    changes = change_of(action, in_doubt=seen.in_doubt) if seen.happened else ()
    kept = calls.keep(seen.result)
    happened = seen.happened and bool(changes)
    settled = e.ActionSettled(action.id, happened, changes, (), seen.why, kept.view, kept.full)
    tracker.ledger.append([settled], action.stream)
    return f"{action.id} ({action.name}) was interrupted: {seen.why}"


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
    tracker.ledger.append([settled], action.stream)
    return f"{action.id} ({action.name}) was interrupted: {settled.why}"
