"""Folds of single things: one action, run or approval, as the records that speak of it tell it.

The same functions fold a thing from its own records alone, and keep it up to date while the whole journal is read.
Each takes the next record and returns what is wrong with it, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from takeback.core import events as e
from takeback.core import intents as i
from takeback.core import lifecycle
from takeback.core.change import Change, Entry, Version
from takeback.core.entities import Approval, RecordedAction, RecordedRun, RecordedStep, called
from takeback.core.lifecycle import SETTLING, Life
from takeback.core.record import Record
from takeback.core.seats import TREE

ActionEnd = e.ActionDetached | e.ActionEnded | e.ActionSettled
Beginning = e.ActionBegan | e.RollbackBegan | e.DriftSeen | e.ActionNoted
_OF_ROLLBACK = (e.RollbackEnded, e.RollbackProgressed)


# An action


def begun(record: Record, event: Beginning) -> RecordedAction:
    """Return the action that a record begins."""
    if isinstance(event, e.ActionNoted):
        return _noted(record, event)
    by = getattr(event, "actor", "")
    action = RecordedAction(record.id, *called(event), record.stream, by, record.at_us, event)
    action.compacted_us = record.compacted_us
    if isinstance(event, e.DriftSeen):
        action.life, action.ended_us, action.ended = Life.DONE, record.at_us, record.seq
        _made(action, record)
    return action


def _noted(record: Record, event: e.ActionNoted) -> RecordedAction:
    began = e.ActionBegan(
        event.name,
        e.Effect.NONE,
        step=event.step,
        parent=event.parent,
        key=event.key,
        arguments=event.arguments,
        tool=event.tool,
        intent=event.intent,
    )
    action = RecordedAction(record.id, *called(began), record.stream, "", record.at_us, began)
    action.life, action.ended_us = lifecycle.ENDED[event.outcome], record.at_us
    action.ended = record.seq
    action.result, action.full, action.why = event.result, event.full, event.why
    action.compacted_us, action.intended = record.compacted_us, event.intended
    return action


def next_of_action(action: RecordedAction, record: Record) -> str:
    """Take in a record that speaks of an action: its own, or that of another which names it."""
    event: Any = record.event
    if owner(event) == action.id:
        if wrong := _OF_ITSELF[type(event)](action, record, event):
            return wrong
        action.compacted_us = action.compacted_us or record.compacted_us
    else:
        if isinstance(event, e.RollbackBegan):
            action.named_by.append(record.id)
        action.shared.extend(shared_in(action.id, record))
    if isinstance(event, e.RollbackEnded):
        for item in event.items:
            if action.id in item.settles:
                settle(action, event.rollback, item)
    return ""


def owner(event: e.Event) -> str:
    """Return the action that an event goes on with, or nothing: an event that begins one has no id yet."""
    if isinstance(event, _OF_ROLLBACK):
        return event.rollback
    return getattr(event, "action", "")


def changes_of(record: Record) -> tuple[Change, ...]:
    """Return the changes that a record tells of; not those that a rollback only plans."""
    event = record.event
    if isinstance(event, i.IntentDeferred):
        return () if record.compacted_us else (i.change_of(record.id, event),)
    return getattr(event, "changes", ())


def is_doubtful(version: Version) -> bool:
    """Return whether it is unknown that this came to be."""
    return isinstance(version.data, dict) and bool(version.data.get("in_doubt"))


def made_in(action: str, record: Record) -> Iterator[Entry]:
    """Yield the changes that a record says an action made."""
    if action in (record.id, owner(record.event)):
        for change in changes_of(record):
            yield Entry(record.seq, action, change)


def shared_in(action: str, record: Record) -> Iterator[Entry]:
    """Yield the changes in the record of another action that this one may have made."""
    maker = owner(record.event) or record.id
    if maker != action:
        for change in changes_of(record):
            if action in change.shared_with:
                yield Entry(record.seq, maker, change)


def _made(action: RecordedAction, record: Record) -> None:
    if changes_of(record):  # most records tell of none
        action.made.extend(made_in(action.id, record))


def _ended(action: RecordedAction, record: Record, event: ActionEnd) -> str:
    if not action.is_tool:
        return f"there is no action {action.id}"
    if wrong := lifecycle.move(lifecycle.ACTION, action, event, f"action {action.id}"):
        return wrong
    action.exit_code = getattr(event, "exit_code", action.exit_code)
    action.why = event.why
    action.result, action.full = event.result, event.full
    action.happened, action.unsure = getattr(event, "happened", True), getattr(event, "unsure", False)
    action.processes = getattr(event, "processes", ())
    action.ended_us, action.ended = record.at_us, record.seq
    _made(action, record)
    return ""


def _told(action: RecordedAction, record: Record, event: e.ActionTold) -> str:
    if not action.is_tool:
        return f"there is no action {action.id}"
    if not event.happened:
        action.never.update(change.target for change in event.changes)
    action.result, action.full = event.result, event.full
    _made(action, record)
    return ""


def _delivered(action: RecordedAction, _record: Record, _event: e.ActionDelivered) -> str:
    action.delivered = True
    return ""


def _seen(action: RecordedAction, record: Record, event: e.ChangesSeen | i.IntentDeferred) -> str:
    if action.life not in (Life.OPEN, Life.BACKGROUND):
        return f"action {event.action} is not open"
    _made(action, record)
    return ""


def _rollback_ended(action: RecordedAction, record: Record, event: e.RollbackEnded) -> str:
    if not action.is_rollback:
        return f"there is no rollback {action.id}"
    if wrong := lifecycle.move(lifecycle.ROLLBACK, action, event, f"rollback {action.id}"):
        return wrong
    action.items, action.ended_us, action.progress = event.items, record.at_us, {}
    action.ended = record.seq
    action.kept = {item.target for item in event.items if item.did is e.Did.KEPT}
    _made(action, record)
    return ""


def _rollback_progressed(action: RecordedAction, _record: Record, event: e.RollbackProgressed) -> str:
    if action.life is not Life.OPEN:
        return f"rollback {event.rollback} is not open"
    action.progress[event.item.target] = event.item
    return ""


_OF_ITSELF: dict[type, Callable[[RecordedAction, Record, Any], str]] = {
    e.ActionDetached: _ended,
    e.ActionEnded: _ended,
    e.ActionSettled: _ended,
    e.ActionTold: _told,
    e.ActionDelivered: _delivered,
    e.ChangesSeen: _seen,
    i.IntentDeferred: _seen,
    e.RollbackEnded: _rollback_ended,
    e.RollbackProgressed: _rollback_progressed,
}


def has_looked(event: ActionEnd) -> bool:
    """Return whether somebody looked at the files when the action ended."""
    return any(mark.resource == TREE for mark in event.marks)


def is_over(rollback: RecordedAction, kind: e.RollbackKind) -> bool:
    """Return whether this is a rollback of a kind, and has ended."""
    return rollback.kind == kind.value and rollback.life is not Life.OPEN


def settle(action: RecordedAction, rollback: str, item: e.Item) -> None:
    """Note what a rollback did about one target of an action. A rollback has one change of each target."""
    if item.did in SETTLING:
        for seq in (0,) if action.is_rollback else item.seqs:
            action.settlers.setdefault((item.target, seq), []).append(rollback)
    elif item.did is e.Did.UNVERIFIABLE:
        action.unsettled.update((item.target, seq) for seq in item.seqs)


# A run


def next_of_run(run: RecordedRun, record: Record) -> str:
    """Take in a record of a run: of its life, of its steps, or the body of one of them."""
    event = record.event
    if isinstance(event, e.StepBegan):
        began = RecordedStep(record.id, event.name, event.parent, event.ref, record.at_us, uses=event.uses)
        run.steps[record.id] = began
        return ""
    if isinstance(event, e.StepEnded):
        step = run.steps.get(event.step)
        if step is None:
            return f"there is no step {event.step}"
        if wrong := lifecycle.move(lifecycle.STEP, step, event, f"step {step.id}"):
            return wrong
        step.ended = record.seq
        return ""
    if isinstance(event, e.ActionBegan | e.ActionNoted):
        run.steps[event.step].body = record.id
        return ""
    table = lifecycle.THREAD if run.began.thread else lifecycle.RUN
    if wrong := lifecycle.move(table, run, event, f"run {run.id}"):
        return wrong
    if isinstance(event, e.RunTaken):
        run.taken_by = event.actor or "you"
        return ""  # why it was handed over still holds
    if isinstance(event, e.RunEnded) and event.outcome is e.Outcome.DONE:
        run.committed_at = record.seq
    run.ended_us, run.ended, run.taken_by = record.at_us, record.seq, ""
    run.why = getattr(event, "why", "")
    return ""


def is_body(run: RecordedRun, event: e.ActionBegan | e.ActionNoted) -> bool:
    """Return whether an action that begins now is what its step does outside its calls."""
    step = None if event.key else run.steps.get(event.step)
    return step is not None and not step.body


# An approval


def next_of_approval(approval: Approval, event: e.ApprovalAnswered | e.ApprovalUsed) -> str:
    """Take in the answer, or that the answer was used."""
    if wrong := lifecycle.move(lifecycle.APPROVAL, approval, event, f"approval {approval.id}"):
        return wrong
    if isinstance(event, e.ApprovalAnswered):
        approval.actor, approval.why = event.actor, event.why
        approval.life = Life.GRANTED if event.granted else Life.DENIED
    return ""
