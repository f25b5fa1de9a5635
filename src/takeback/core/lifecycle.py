"""The life cycles of runs, steps, actions and rollbacks: tables of which event may follow which."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from takeback.core import events as e


class Life(StrEnum):
    NEW = "new"
    OPEN = "open"
    BACKGROUND = "background"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    SETTLED = "settled"
    HANDED_OVER = "handed over"
    GRANTED = "granted"
    DENIED = "denied"
    USED = "used"


SETTLING = {
    e.Did.RESTORED,
    e.Did.REMOVED,
    e.Did.COMPENSATED,
    e.Did.CANCELLED,
    e.Did.ALREADY,
    e.Did.KEPT,
    e.Did.MERGED,
}
"""Outcomes of a rollback that settle a target. All others leave it open."""

Table = dict[Life, dict[type, Life | None]]

ENDED = {e.Outcome.DONE: Life.DONE, e.Outcome.FAILED: Life.FAILED, e.Outcome.STOPPED: Life.STOPPED}

RUN: Table = {
    Life.NEW: {e.RunBegan: Life.OPEN},
    Life.OPEN: {e.RunEnded: None, e.RunInterrupted: Life.INTERRUPTED, e.RunHandedOver: Life.HANDED_OVER},
    Life.INTERRUPTED: {e.RunResumed: Life.OPEN, e.RunEnded: None, e.RunHandedOver: Life.HANDED_OVER},
    Life.HANDED_OVER: {
        e.RunTaken: Life.HANDED_OVER,
        e.RunReturned: Life.INTERRUPTED,
        e.RunHandedOver: Life.HANDED_OVER,
        e.RunEnded: None,
    },
}
THREAD: Table = {
    **RUN,
    **{life: {e.RunResumed: Life.OPEN} for life in (Life.DONE, Life.FAILED, Life.STOPPED)},
}
STEP: Table = {
    Life.NEW: {e.StepBegan: Life.OPEN},
    Life.OPEN: {e.StepEnded: None},
}
ACTION: Table = {
    Life.NEW: {e.ActionBegan: Life.OPEN},
    Life.OPEN: {e.ActionDetached: Life.BACKGROUND, e.ActionEnded: None, e.ActionSettled: Life.SETTLED},
    Life.BACKGROUND: {
        e.ActionDetached: Life.BACKGROUND,
        e.ActionEnded: None,
        e.ActionSettled: Life.SETTLED,
    },
}
APPROVAL: Table = {
    Life.NEW: {e.ApprovalAsked: Life.OPEN},
    Life.OPEN: {e.ApprovalAnswered: Life.GRANTED},
    Life.GRANTED: {e.ApprovalUsed: Life.USED},
}
ROLLBACK: Table = {
    Life.NEW: {e.RollbackBegan: Life.OPEN},
    Life.OPEN: {e.RollbackEnded: Life.DONE},
}
"""From state and event to the next state; None means that the event's outcome decides."""


def follow(table: Table, life: Life, event: e.Event) -> Life | None:
    """Return the next state, or None if this event is not allowed now."""
    after = table.get(life, {})
    if type(event) not in after:
        return None
    return after[type(event)] or ENDED[event.outcome]  # type: ignore[union-attr]


def move(table: Table, subject: Any, event: e.Event, called: str) -> str:
    """Bring a subject into the state that an event leads to; return what is wrong if the event may not come."""
    life = follow(table, subject.life, event)
    if life is None:
        return f"{called} is {subject.life}, which {type(event).__name__} cannot follow"
    subject.life = life
    return ""
