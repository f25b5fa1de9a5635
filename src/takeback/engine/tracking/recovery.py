"""Settling what a crash left open, by looking at the world and never by guessing."""

from __future__ import annotations

from collections.abc import Iterable

from takeback.core import events as e
from takeback.core.change import Change
from takeback.core.entities import RecordedAction, RecordedRun
from takeback.core.history import History
from takeback.core.lifecycle import Life
from takeback.core.rollback import Verdict, judge
from takeback.core.selection import inside
from takeback.engine.runs.recorded_calls import RecordedCalls, change_of, is_outside, is_taken_back
from takeback.engine.tracking.tracker import Tracker, shared

WAITING = (Life.INTERRUPTED, Life.HANDED_OVER)


def settle(tracker: Tracker, calls: RecordedCalls) -> list[str]:
    """Settle every open action whose process is dead. Return notes about it as text. The caller holds the lock."""
    history = tracker.ledger.history
    tracker.end_gone()
    # Innermost first: what changed since the last look belongs to them.
    notes = [
        settle_one(tracker, calls, action)
        for action in reversed(history.open_actions())
        if action.is_tool
        and not tracker.is_guarded(action)
        and not tracker.lives_on(action)
        # Its last process may have ended after its part was checked, and the part has to be settled first.
        and tracker.open_part(action.id) == action.id
    ]
    for run in history.open_runs():
        # The second check goes through all that the run did, so it is skipped while a process leads the run.
        if _is_led(tracker, run) or _is_running(history, run):
            continue
        if run.began.detached:
            # There is no program to continue: its open actions have been settled one by one.
            tracker.ledger.append(
                [e.RunEnded(e.Outcome.STOPPED, "the process that led it has ended")], run.id
            )
        elif why := _unproved(history, run):
            tracker.ledger.append([e.RunHandedOver(why)], run.id)
        else:
            why = "the workspace was moved" if tracker.is_left_behind(run.id) else "its process died"
            tracker.ledger.append([e.RunInterrupted(why)], run.id)
    return notes


def _unproved(history: History, run: RecordedRun) -> str:
    """Return why a failed run must not simply be retried: its rollback could not be verified completely.

    If its process had not died, the run would have handed itself over for this.
    """
    own = {id for id in run.actions if history.actions[id].is_tool}
    named_by = history.actions[next(iter(own))].named_by if own else ()
    for action in (history.actions[id] for id in reversed(named_by)):
        if isinstance(action.began, e.RollbackBegan) and own <= set(action.began.of):
            if judge(action.items) is Verdict.PARTIAL:
                return f"it failed and its process died; not all that {action.id} took back could be verified"
            break
    return ""


def _is_running(history: History, run: RecordedRun) -> bool:
    return bool(history.unended_in(run.id))


def is_waiting(history: History, actions: Iterable[str]) -> bool:
    """Return whether one of these actions belongs to a run that waits to be continued, or for a human."""
    runs = [history.runs.get(history.actions[action].stream) for action in actions]
    return any(run is not None and run.life in WAITING for run in runs)


def settle_calls(tracker: Tracker, calls: RecordedCalls, actions: Iterable[str], why: str) -> None:
    """End the open calls among these actions, which are no longer being made, with what their checks find."""
    history = tracker.ledger.history
    for id in reversed(list(actions)):
        action = history.actions[id]
        if action.life is not Life.OPEN or not action.as_tool.call_key:
            continue
        with tracker.lock.held():
            seen = calls.look_at(action)
            changes = change_of(action, in_doubt=seen.in_doubt) if seen.happened else ()
            kept, words = calls.keep(seen.result), f"{why}; {seen.why}"
            tracker.end(id, e.Outcome.FAILED, why=words, changes=changes, result=kept.view, full=kept.full)


def end_taken_back(tracker: Tracker, actions: Iterable[str]) -> None:
    """End the waiting runs of these actions that were taken back completely."""
    history = tracker.ledger.history
    for id in sorted({history.actions[action].stream for action in actions}):
        run = history.runs.get(id)
        if run and run.life in WAITING and is_taken_back(history, run):
            tracker.ledger.append([e.RunEnded(e.Outcome.STOPPED, "it was taken back")], run.id)


def _is_led(tracker: Tracker, run: RecordedRun) -> bool:
    """Return whether the process that leads the run still lives."""
    if run.began.detached:
        return tracker.is_led(run)
    history = tracker.ledger.history
    if any(tracker.is_guarded(action) for action in history.unended_in(run.id)):  # its body, as a rule
        return True
    return any(tracker.is_guarded(history.actions[id]) for id in reversed(run.actions))


def _owned(changes: tuple[Change, ...]) -> str:
    """Return as text how many of these changes are provably the action's own."""
    every, unsure = len(changes), sum(change.in_doubt for change in changes)
    if every and not unsure:
        return f"all {every} changes are provably its own" if every > 1 else "the change is provably its own"
    return f"of {every} changes {every - unsure} are provably its own, {unsure} are in doubt"


def settle_one(
    tracker: Tracker, calls: RecordedCalls, action: RecordedAction, known: str = "no end of it was recorded"
) -> str:
    """Settle one action: its changes here by looking, its effect in another system by its check. Return a note."""
    history = tracker.ledger.history
    changes: tuple[Change, ...] = ()
    marks: tuple[e.Mark, ...] = ()
    words = []
    if tracker.is_left_behind(action.id):
        words.append("the workspace was moved; its changes to files after the last record did not come along")
    elif action.began.marks:
        marks = tracker.marks()
        others = [owner for owner in tracker.owners() if owner is not action]
        changes = tracker.proved(action, shared(tracker.since_last(marks), others))
        except_inside = " apart from what was done inside it" if len(inside(history, [action.id])) > 1 else ""
        unchanged = f"nothing had changed{except_inside}"
        found = f"{known}; {_owned(changes)}" if changes or action.made else unchanged
        words.append(found)
    changes += tracker.made_by(action.id)
    seen = calls.look_at(action)
    if seen.happened:
        changes += change_of(action, in_doubt=seen.in_doubt)
    if is_outside(action) or not words:
        words.append(seen.why)
    kept, why = calls.keep(seen.result), "; ".join(words)
    happened = bool(changes or action.made)
    settled = e.ActionSettled(action.id, happened, changes, marks, why, kept.view, kept.full)
    tracker.ledger.append([settled], action.stream)
    return f"{action.id} ({action.name}) was interrupted: {why}"
