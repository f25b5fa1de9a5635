"""Recorded calls: what is known of them, and how one that ended badly, or not at all, is judged by the world."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from takeback.core import events as e
from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.entities import RecordedAction, RecordedRun, RecordedStep
from takeback.core.history import History
from takeback.core.intents import GONE
from takeback.core.intents import RESOURCE as INTENTS
from takeback.core.values import plain
from takeback.engine.runs.values import KeptValue, ValueStore
from takeback.errors import TakebackError
from takeback.resources.calls.resource import RESOURCE, Call, KnownCall, look

OUTSIDE = (e.Effect.COMPENSABLE, e.Effect.IRREVERSIBLE)
"""Effects in other systems, where no resource of ours can look."""


class CallEvidence(msgspec.Struct, frozen=True):
    """What the world says about a call."""

    happened: bool
    result: Any = None
    in_doubt: bool = False
    why: str = ""


class RecordedCalls:
    """What the journal knows of calls."""

    def __init__(self, vault: ValueStore) -> None:
        self._vault = vault

    def known(self, action: RecordedAction) -> KnownCall:
        """A recorded call with everything that its handlers need."""
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
        )
        return KnownCall(call, handlers.undo, handlers.check, "; ".join(began.uncaptured))

    def result(self, action: RecordedAction) -> Any:
        return self._vault.fetch(action.result, action.full)

    def keep(self, value: Any, seen: Any = None) -> KeptValue:
        """Keep a value, under the lock until an event names it."""
        return self._vault.keep(value, seen)

    def keeping(self, value: Any, seen: Any = None) -> AbstractContextManager[KeptValue]:
        """Keep a value for the block that records it."""
        return self._vault.keeping(value, seen)

    def look_at(self, action: RecordedAction) -> CallEvidence:
        """Whether an action without a good end happened, by the word of its check."""
        began = action.began
        assert isinstance(began, e.ActionBegan)
        if not is_outside(action):
            return CallEvidence(False, why="what it changed is with the action around it")
        try:
            known = self.known(action)
            if not known.check:
                return CallEvidence(
                    True, in_doubt=True, why="nobody can look whether it happened: it has no check"
                )
            found = look(known)
            if found is ABSENT:
                return CallEvidence(False, why="its check finds nothing")
            return CallEvidence(True, plain(found, "what the check found"), why="its check finds it")
        except TakebackError as error:
            return CallEvidence(True, in_doubt=True, why=f"its check cannot tell: {error.message}")


def change_of(action: RecordedAction, *, in_doubt: bool = False) -> tuple[Change, ...]:
    """The change that a call to another system is."""
    if not is_outside(action):
        return ()
    key = action.as_tool.call_key
    data = {"action": action.id, "in_doubt": True} if in_doubt else {"action": action.id}
    target = Target(RESOURCE, f"{action.name} {key[:12]}")
    return (Change(target, ABSENT, Version(f"call:{key}", data=data)),)


def is_outside(action: RecordedAction) -> bool:
    """Whether what it does is in another system."""
    began = action.as_tool
    # What a command does elsewhere is no call: there is nothing to ask, so all that is known is that it ran.
    return began.effect in OUTSIDE and bool(began.call_key)


def standing(history: History, action: RecordedAction) -> Change | None:
    """What the other system has of this call, as far as is recorded: also where an undo had to leave it."""
    for entry in action.made:
        if entry.target.resource == RESOURCE and (there := history.latest(entry.target)):
            return Change(entry.target, ABSENT, there)
    return None


def left_standing(history: History, actions: Iterable[str]) -> list[Change]:
    """What other systems have of these calls, and what was sent by these actions."""
    every = [history.actions[id] for id in actions]
    calls = [change for action in every if (change := standing(history, action))]
    return [*calls, *(change for action in every for change in sent(history, action))]


def sent(history: History, action: RecordedAction) -> list[Change]:
    """What this action deferred and nobody took back, as far as is recorded."""
    return [
        Change(entry.target, ABSENT, there)
        for entry in action.made
        if entry.target.resource == INTENTS
        and history.intents.every[entry.target.name].state not in GONE
        and (there := history.latest(entry.target))
    ]


def is_gone(history: History, action: RecordedAction) -> bool:
    """Whether it was taken back: asked for again it is made again, as another one."""
    made = any(entry.target.resource == RESOURCE for entry in history.live(action.id))
    return history.is_undone(action.id) or (made and standing(history, action) is None)


def stands(history: History, step: RecordedStep) -> bool:
    """Whether what a completed step did is there: not taken back, and not left on another machine."""
    return not history.is_undone(step.body) and step.body not in history.moves.lost


def is_taken_back(history: History, run: RecordedRun) -> bool:
    """Whether nothing is left of what a run did."""
    done = [history.actions[id] for id in run.actions if history.actions[id].is_tool]
    left = (standing(history, a) or sent(history, a) for a in done)
    return bool(done) and all(history.is_undone(a.id) for a in done) and not any(left)


def undone_since(history: History, run: RecordedRun) -> list[str]:
    """Actions of a run that were taken back after it had ended; not those that it took back itself, to replan."""
    later = [a.began for a in history.actions.values() if a.is_rollback and a.began_us >= run.ended_us]
    named = {id for began in later if isinstance(began, e.RollbackBegan) for id in began.of}
    return [id for id in run.actions if id in named and history.is_undone(id)]


def in_doubt(history: History, action: RecordedAction) -> bool:
    """Whether nobody knows if this call happened."""
    stands = standing(history, action)
    return stands is not None and is_doubtful(stands.after)


def told(history: History, action: RecordedAction, *, happened: bool) -> tuple[Change, ...]:
    """What makes a call in doubt one that happened for certain, or never."""
    stands = standing(history, action)
    if stands is None:
        return ()
    certain = Version(stands.after.id, data={"action": action.id}) if happened else ABSENT
    return (Change(stands.target, stands.after, certain),)


def is_doubtful(version: Version) -> bool:
    return isinstance(version.data, dict) and bool(version.data.get("in_doubt"))
