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
    """Judge every open action whose process is gone; returns what was done, in words. Under the lock."""
    history = tracker.ledger.history
    tracker.end_gone()
    # The innermost first: what changed since the last look is theirs.
    notes = [
        settle_one(tracker, calls, action)
        for action in reversed(history.open_actions())
        if action.is_tool
        and not tracker.is_guarded(action)
        and not tracker.lives_on(action)
        # Its last process may have ended after its part was asked about, and the part comes first.
        and tracker.open_part(action.id) == action.id
    ]
    for run in history.open_runs():
        # The second question goes through all that the run did; while somebody conducts it, it is not asked.
        if _is_led(tracker, run) or _is_running(history, run):
            continue
        if run.began.detached:
            # There is no program that could be continued: what was begun in it has been settled one by one.
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
    """Why a run that failed must not just be tried again: it took itself back, and not all of that is proved.

    Had it not died, it would have handed itself over for this.
    """
    own = {id for id in run.actions if history.actions[id].is_tool}
    for action in reversed(history.actions.values()):
        if isinstance(action.began, e.RollbackBegan) and own and own <= set(action.began.of):
            if judge(action.items) is Verdict.PARTIAL:
                return f"it failed and its process died; of what {action.id} took back, not all could be verified"
            break
    return ""


def _is_running(history: History, run: RecordedRun) -> bool:
    return any(history.actions[id].life in (Life.OPEN, Life.BACKGROUND) for id in run.actions)


def is_waiting(history: History, actions: Iterable[str]) -> bool:
    """Whether one of these actions is of a run that waits to be continued, or for a human."""
    runs = [history.runs.get(history.actions[action].stream) for action in actions]
    return any(run is not None and run.life in WAITING for run in runs)


def settle_calls(tracker: Tracker, calls: RecordedCalls, actions: Iterable[str], why: str) -> None:
    """End the calls among these actions that nobody is at work on any more, by what the world says of them."""
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
    """A run that waited to be continued, or for a human, is over when nothing is left of it."""
    history = tracker.ledger.history
    for id in sorted({history.actions[action].stream for action in actions}):
        run = history.runs.get(id)
        if run and run.life in WAITING and is_taken_back(history, run):
            tracker.ledger.append([e.RunEnded(e.Outcome.STOPPED, "it was taken back")], run.id)


def _is_led(tracker: Tracker, run: RecordedRun) -> bool:
    """Whether the process that conducts the run still lives."""
    if run.began.detached:
        return tracker.is_led(run)
    history = tracker.ledger.history
    return any(tracker.is_guarded(history.actions[id]) for id in reversed(run.actions))


def _owned(changes: tuple[Change, ...]) -> str:
    """How many of them are provably its own."""
    every, unsure = len(changes), sum(change.in_doubt for change in changes)
    if every and not unsure:
        return f"all {every} changes are provably its own" if every > 1 else "the change is provably its own"
    return f"of {every} changes {every - unsure} are provably its own, {unsure} are in doubt"


def settle_one(
    tracker: Tracker, calls: RecordedCalls, action: RecordedAction, known: str = "no end of it was recorded"
) -> str:
    """What it changed here is found by looking, and what it did in another system by its check."""
    history = tracker.ledger.history
    changes: tuple[Change, ...] = ()
    marks: tuple[e.Mark, ...] = ()
    words = []
    if tracker.is_left_behind(action.id):
        words.append(
            "the workspace was moved; what it had done to files after the last record did not come along"
        )
    elif action.began.marks:
        marks = tracker.marks()
        others = [owner for owner in tracker.owners() if owner is not action]
        changes = tracker.proved(action, shared(tracker.since_last(marks), others))
        besides = " besides what was done inside of it" if len(inside(history, [action.id])) > 1 else ""
        found = f"{known}; {_owned(changes)}" if changes or action.made else f"nothing had changed{besides}"
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
