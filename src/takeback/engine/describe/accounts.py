"""What a run did or intended, told from its records, to be compared with another run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from takeback.core import events as e
from takeback.core import selection
from takeback.core.change import Change
from takeback.core.entities import RecordedAction
from takeback.core.events import ANSWER
from takeback.core.history import History
from takeback.core.intents import RESOURCE as INTENTS
from takeback.core.intents import IntentDeferred
from takeback.core.lifecycle import Life
from takeback.core.memory import RESOURCE as MEMORY
from takeback.core.record import Record
from takeback.core.run_comparison import Deed, RunAccount, RunQuestion, relative_to
from takeback.engine.describe.wording import is_call
from takeback.errors import UsageError

CHANGES = "takeback:changes"
"""The tool of the note with which a shadow ends: what it changed in its view."""
_OPENED = "database "
"""The name of the action that opens a database begins so; what counts is its commit."""

InFull = Callable[[RecordedAction], Any]
"""Returns the arguments of an action, if not all of them are in its record."""


def account(
    history: History, records: Iterable[Record], run: str, roots: Sequence[str], in_full: InFull
) -> RunAccount:
    """Return what a run did or intended. `records` are those of its stream; `roots` the folders it worked in."""
    recorded = history.runs.get(run)
    if recorded is None:
        raise UsageError(f"there is no run {run}", hint="`takeback log` lists what there is")
    records = list(records)
    actions = [history.actions[id] for id in recorded.actions]
    calls = [a for a in actions if is_call(history, a) and a.as_tool.tool not in (ANSWER, CHANGES)]
    deeds = [_deed(history, a, roots, in_full) for a in calls if not a.name.startswith(_OPENED)]
    deeds += [_sent(record, roots) for record in records if isinstance(record.event, IntentDeferred)]
    effects = {
        c.target.said: (c.before.id, c.after.id) for c in _net(history, actions) if c.before != c.after
    }
    for action in actions:
        if action.as_tool.tool == CHANGES:
            effects |= {name: (before, after) for name, before, after in action.result or ()}
    ended_us = recorded.ended_us or max((a.ended_us for a in actions), default=recorded.began_us)
    return RunAccount(
        run,
        recorded.began.name,
        recorded.life.value,
        tuple(deeds),
        effects,
        tuple(_questions(history, records, roots)),
        max(0, ended_us - recorded.began_us),
    )


def _net(history: History, actions: Sequence[RecordedAction]) -> list[Change]:
    """Return what the run changed in the end, whether or not it has been taken back since; without its calls."""
    every = selection.inside(history, [a.id for a in actions if a.is_tool])
    return [c for c in selection.net(history, every) if c.target.resource not in ("calls", INTENTS, MEMORY)]


def _sent(record: Record, roots: Sequence[str]) -> Deed:
    """Return what was to be sent, as a deed: it happens only once the run has committed."""
    event = record.event
    assert isinstance(event, IntentDeferred)
    arguments = relative_to(event.arguments, roots)
    return Deed(record.id, event.handler, arguments, e.Effect.DEFERRED.value, Life.DONE.value, event.step)


def _deed(history: History, action: RecordedAction, roots: Sequence[str], in_full: InFull) -> Deed:
    began = action.as_tool
    run = history.runs[action.stream]
    return Deed(
        action.id,
        began.tool or action.name,
        relative_to(began.arguments, roots),
        (action.intended or began.effect).value,
        Life.DONE.value if action.life is Life.SETTLED and action.happened else action.life.value,
        run.steps[began.step].name if began.step in run.steps else "",
        max(0, action.ended_us - action.began_us),
        action.intended is not None,
        relative_to(in_full(action), roots) if began.full else None,
    )


def _questions(history: History, records: Iterable[Record], roots: Sequence[str]) -> Iterable[RunQuestion]:
    for record in records:
        if isinstance(event := record.event, e.ApprovalAsked):
            answer = history.approvals[record.id].life
            said = "granted" if answer is Life.USED else answer.value
            yield RunQuestion(event.name, relative_to(event.arguments, roots), said)
        elif isinstance(event, e.ActionRefused):
            yield RunQuestion(
                event.name, relative_to(event.arguments, roots), f"refused by {event.rule or 'a human'}"
            )
