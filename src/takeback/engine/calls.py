"""Recorded calls: what is known of them, and how one that ended badly, or not at all, is judged by the world."""

from __future__ import annotations

from typing import Any

import msgspec

from takeback.core import events as e
from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.history import History
from takeback.core.subjects import Action
from takeback.core.values import plain
from takeback.engine.vault import Kept, Vault
from takeback.errors import TakebackError
from takeback.resources.calls.resource import RESOURCE, Call, Known, look

OUTSIDE = (e.Effect.COMPENSABLE, e.Effect.IRREVERSIBLE)
"""Effects in other systems, where no resource of ours can look."""


class Seen(msgspec.Struct, frozen=True):
    """What the world says about a call."""

    happened: bool
    result: Any = None
    in_doubt: bool = False
    why: str = ""


class Calls:
    """What the journal knows of calls."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def known(self, action: Action) -> Known:
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
        return Known(call, handlers.undo, handlers.check)

    def result(self, action: Action) -> Any:
        return self._vault.fetch(action.result, action.full)

    def keep(self, value: Any) -> Kept:
        return self._vault.keep(value)

    def look_at(self, action: Action) -> Seen:
        """Whether an action without a good end happened, by the word of its check."""
        began = action.began
        assert isinstance(began, e.ActionBegan)
        if began.effect not in OUTSIDE:
            return Seen(False, why="what it changed is with the action around it")
        known = self.known(action)
        if not known.check:
            return Seen(True, in_doubt=True, why="nobody can look whether it happened: it has no check")
        try:
            found = look(known)
            if found is ABSENT:
                return Seen(False, why="its check finds nothing")
            return Seen(True, plain(found, "what the check found"), why="its check finds it")
        except TakebackError as error:
            return Seen(True, in_doubt=True, why=f"its check cannot tell: {error.message}")


def change_of(action: Action, *, in_doubt: bool = False) -> tuple[Change, ...]:
    """The change that a call to another system is."""
    began = action.began
    assert isinstance(began, e.ActionBegan)
    if began.effect not in OUTSIDE:
        return ()
    data = {"action": action.id, "in_doubt": True} if in_doubt else {"action": action.id}
    target = Target(RESOURCE, f"{action.name} {began.call_key[:12]}")
    return (Change(target, ABSENT, Version(f"call:{began.call_key}", data=data)),)


def in_doubt(history: History, action: Action) -> bool:
    """Whether nobody knows if this call happened."""
    return any(
        _is_doubtful(history.timeline(entry.target)[-1].change.after) for entry in history.live(action.id)
    )


def cleared(history: History, action: Action) -> tuple[Change, ...]:
    """What makes a call in doubt one that happened for certain."""
    doubtful = [entry.change for entry in history.live(action.id) if _is_doubtful(entry.change.after)]
    return tuple(
        Change(change.target, change.after, Version(change.after.id, data={"action": action.id}))
        for change in doubtful
    )


def _is_doubtful(version: Version) -> bool:
    return isinstance(version.data, dict) and bool(version.data.get("in_doubt"))
