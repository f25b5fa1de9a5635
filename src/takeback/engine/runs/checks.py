"""Checks of a caller's arguments, before anything happens."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from takeback.core import ids
from takeback.core.history import History
from takeback.core.rollback import Dependents, OnConflict
from takeback.core.values import plain
from takeback.errors import UsageError

if TYPE_CHECKING:
    from takeback.engine.past.moments import Moments


def choice_of(named: Any) -> OnConflict:
    try:
        return OnConflict(named)
    except ValueError:
        choices = ", ".join(choice.value for choice in OnConflict)
        raise UsageError(f"{named!r} is not a choice for conflicts", hint=f"use one of {choices}") from None


def dependents_of(named: Any) -> Dependents:
    try:
        return Dependents(named)
    except ValueError:
        choices = ", ".join(choice.value for choice in Dependents)
        raise UsageError(
            f"{named!r} is not a choice for dependent steps", hint=f"use one of {choices}"
        ) from None


def text_of(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{what} is a {type(value).__name__}, not a string; nothing was begun")
    text: str = plain(value, what)
    return text


def seconds_of(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value) or value < 0:
        raise UsageError(f"{what} is {value!r}, which is not a number of seconds; nothing was begun")
    return value


def position_of(history: History, run_id: str, to: Any, moments: Moments) -> int:
    """Return the position in the journal just before a checkpoint, step or action that has a mark, or of a moment."""
    named = to if isinstance(to, str) else getattr(to, "id", None)
    if isinstance(named, str) and not ids.is_id(named) and moments.is_spoken(named):
        return moments.find(named).position
    if not isinstance(named, str):
        raise UsageError(
            f"{to!r} is not a step, action or checkpoint; nothing was taken back",
            hint="run.rollback(to=...) takes the result of run.step() or run.checkpoint(), an id or a moment",
        )
    run = history.runs[run_id]
    body = run.steps[named].body if named in run.steps else named
    if named not in history.checkpoints and body not in run.actions:
        name = named or getattr(to, "path", "")
        raise UsageError(
            f"run {run_id} has no step or action {name!r} that was begun, and no such checkpoint"
        )
    if named not in history.checkpoints and not history.actions[body].began.marks:
        raise UsageError(
            f"no checkpoint was taken at {named}, so more would be taken back than you want; nothing was taken back",
            hint="tb.run(checkpoint='action') takes one at each call, run.checkpoint() takes one now",
        )
    return ids.seq_of(named) - 1
