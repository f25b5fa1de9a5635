"""Recorded calls: what is known about them, and judging those that failed or never ended by looking at the world."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from itertools import takewhile
from typing import Any, Literal

import msgspec

from takeback.core import events as e
from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.entities import RecordedAction, RecordedRun, RecordedStep
from takeback.core.folds import is_doubtful
from takeback.core.history import History
from takeback.core.intents import GONE
from takeback.core.intents import RESOURCE as INTENTS
from takeback.core.lifecycle import Life
from takeback.core.values import plain
from takeback.engine.runs.values import KeptValue, ValueStore
from takeback.errors import TakebackError
from takeback.resources.calls.resource import RESOURCE, Call, KnownCall, look

HANDLERS = "handlers"
"""In the stored arguments of a call: the data of its handlers."""
OUTSIDE = (e.Effect.COMPENSABLE, e.Effect.IRREVERSIBLE)
"""Effects in other systems, which none of our resources can look at."""


CallOutcome = Literal["open", "done", "failed", "cut-short", "in-doubt"]
"""What became of a call: only an open one may be made, and one that failed or was cut short may be begun again."""


class CallEvidence(msgspec.Struct, frozen=True):
    """What was found out about a call by looking."""

    happened: bool
    result: Any = None
    in_doubt: bool = False
    why: str = ""


class RecordedCalls:
    """The calls in the journal, with their values."""

    def __init__(self, vault: ValueStore) -> None:
        self._vault = vault

    def known(self, action: RecordedAction) -> KnownCall:
        """Return a recorded call with everything that its handlers need."""
        began = action.began
        assert isinstance(began, e.ActionBegan)
        given = self._vault.fetch(began.arguments, began.full) or {}
        handlers = began.handlers or e.Handlers()
        call = Call(
            action.name,
            given.get("args", []),
            given.get("kwargs", {}),
            began.call_key,
            self.result(action),
            given.get(HANDLERS, {}),
        )
        return KnownCall(call, handlers.undo, handlers.check, "; ".join(began.uncaptured))

    def result(self, action: RecordedAction) -> Any:
        return self._vault.fetch(action.result, action.full)

    def keep(self, value: Any, seen: Any = None) -> KeptValue:
        """Store a value. The caller holds the lock until an event names it."""
        return self._vault.keep(value, seen)

    def keeping(self, value: Any, seen: Any = None) -> AbstractContextManager[KeptValue]:
        """Store a value for the block that records it."""
        return self._vault.keeping(value, seen)

    def look_at(self, action: RecordedAction) -> CallEvidence:
        """Find out by its check whether an action that failed or never ended happened."""
        began = action.began
        assert isinstance(began, e.ActionBegan)
        if not is_outside(action):
            return CallEvidence(False, why="its changes belong to the action around it")
        try:
            known = self.known(action)
            if not known.check:
                return CallEvidence(
                    True, in_doubt=True, why="it has no check that could find out whether it happened"
                )
            found = look(known)
            if found is ABSENT:
                return CallEvidence(False, why="its check finds nothing")
            return CallEvidence(True, plain(found, "what the check found"), why="its check finds it")
        except TakebackError as error:
            return CallEvidence(True, in_doubt=True, why=f"its check failed: {error.message}")


def change_of(action: RecordedAction, *, in_doubt: bool = False) -> tuple[Change, ...]:
    """Return the change that a call makes in another system."""
    if not is_outside(action):
        return ()
    key = action.as_tool.call_key
    data = {"action": action.id, "in_doubt": True} if in_doubt else {"action": action.id}
    target = Target(RESOURCE, f"{action.name} {key[:12]}")
    return (Change(target, ABSENT, Version(f"call:{key}", data=data)),)


def is_outside(action: RecordedAction) -> bool:
    """Return whether an action is a call to another system."""
    began = action.as_tool
    # A command with effects elsewhere is not a call: it has no check, so all that is known is that it ran.
    return began.effect in OUTSIDE and bool(began.call_key)


def standing(history: History, action: RecordedAction) -> Change | None:
    """Return what the other system has from this call according to the journal, even if an undo had to leave it."""
    for entry in action.made:
        if entry.target.resource == RESOURCE and (there := history.latest(entry.target)):
            return Change(entry.target, ABSENT, there)
    return None


def left_standing(history: History, actions: Iterable[str]) -> list[Change]:
    """Return what other systems have from these calls, and what these actions sent."""
    every = [history.actions[id] for id in actions]
    calls = [change for action in every if (change := standing(history, action))]
    return [*calls, *(change for action in every for change in sent(history, action))]


def sent(history: History, action: RecordedAction) -> list[Change]:
    """Return what this action deferred and was not taken back, according to the journal."""
    return [
        Change(entry.target, ABSENT, there)
        for entry in action.made
        if entry.target.resource == INTENTS
        and history.intents.every[entry.target.name].state not in GONE
        and (there := history.latest(entry.target))
    ]


def is_gone(history: History, action: RecordedAction) -> bool:
    """Return whether a call was taken back: then the same call is made again, as a new one."""
    made = any(entry.target.resource == RESOURCE for entry in history.live(action.id))
    return history.is_undone(action.id) or (made and standing(history, action) is None)


def stands(history: History, step: RecordedStep) -> bool:
    """Return whether the work of a completed step is here: not taken back, and not left on another machine."""
    return not history.is_undone(step.body) and step.body not in history.moves.lost


def is_taken_back(history: History, run: RecordedRun) -> bool:
    """Return whether everything that a run did was taken back."""
    done = [history.actions[id] for id in run.actions if history.actions[id].is_tool]
    left = (standing(history, a) or sent(history, a) for a in done)
    return bool(done) and all(history.is_undone(a.id) for a in done) and not any(left)


def undone_since(history: History, run: RecordedRun) -> list[str]:
    """Return the actions of a run that were taken back after it had ended, not by the run itself to replan."""
    later = [
        r.began for r in takewhile(lambda rollback: rollback.began_us >= run.ended_us, history.rollbacks())
    ]
    named = {id for began in later if isinstance(began, e.RollbackBegan) for id in began.of}
    return [id for id in run.actions if id in named and history.is_undone(id)]


def in_doubt(history: History, action: RecordedAction) -> bool:
    """Return whether it is unknown if this call happened."""
    stands = standing(history, action)
    return stands is not None and is_doubtful(stands.after)


def outcome_of(history: History, action: RecordedAction) -> CallOutcome:
    """Return what became of a call, according to the journal."""
    if action.life is Life.OPEN:
        return "open"
    if in_doubt(history, action) or (is_outside(action) and history.is_half_undone(action.id)):
        return "in-doubt"
    # Even if it raised or was cut short: its check found it in the other system.
    if standing(history, action) or action.life is Life.DONE:
        return "done"
    if action.life is Life.BACKGROUND:
        return "failed" if action.why else "done"
    return "failed" if action.life is Life.FAILED else "cut-short"


def told(history: History, action: RecordedAction, *, happened: bool) -> tuple[Change, ...]:
    """Return the change that settles a call in doubt: it certainly happened, or never did."""
    stands = standing(history, action)
    if stands is None:
        return ()
    certain = Version(stands.after.id, data={"action": action.id}) if happened else ABSENT
    return (Change(stands.target, stands.after, certain),)
