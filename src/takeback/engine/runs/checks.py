"""What a caller asks for, checked before anything happens: where to go back to, and what to do about conflicts."""

from __future__ import annotations

import math
from typing import Any

from takeback.core import ids
from takeback.core.history import History
from takeback.core.rollback import OnConflict
from takeback.core.values import plain
from takeback.errors import UsageError


def choice_of(named: Any) -> OnConflict:
    try:
        return OnConflict(named)
    except ValueError:
        choices = ", ".join(choice.value for choice in OnConflict)
        raise UsageError(f"{named!r} is no choice for conflicts", hint=f"one of {choices}") from None


def text_of(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{what} is a {type(value).__name__}, not a string; nothing was begun")
    text: str = plain(value, what)
    return text


def seconds_of(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value) or value < 0:
        raise UsageError(f"{what} is {value!r}, which is no number of seconds; nothing was begun")
    return value


def position_of(history: History, run_id: str, to: Any) -> int:
    """The place in the journal just before a checkpoint, step or action: where there is a picture of it."""
    named = to if isinstance(to, str) else getattr(to, "id", None)
    if not isinstance(named, str):
        raise UsageError(
            f"{to!r} is no step, action or checkpoint; nothing was taken back",
            hint="run.rollback(to=...) takes what run.step() or run.checkpoint() gave, or an id",
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
            f"no picture was taken at {named}, so more would be taken back than you ask for",
            hint="tb.run(checkpoint='action') takes one at each call, run.checkpoint() one here and now",
        )
    return ids.seq_of(named) - 1
