"""An action that is about to begin: what the gate decides on, and what is recorded."""

from __future__ import annotations

from typing import Any

import msgspec

from takeback.core import events as e
from takeback.core.policy import Foreseen
from takeback.engine.gate.foresight import ForeseenAction
from takeback.engine.sandbox.fence import FENCED, Containment, Fence


class Wanted(msgspec.Struct, frozen=True):
    """An action to be judged and recorded."""

    name: str
    effect: e.Effect
    key: str = ""
    plain: dict[str, Any] = {}
    """Its arguments as they are stored; `named`: by name, if the names are known; `seen`: as a log may show them."""
    named: Any = None
    seen: Any = None
    tool: str = ""
    """Its name in rules."""
    intent: str = ""
    """The digest of what the caller's key is used for."""
    handlers: e.Handlers | None = None
    step: str = ""
    parent: str = ""
    looking: bool = False
    undeclared: bool = False
    """True if its effect is not declared."""
    apart: bool = False
    """True if another process may end it: then its beginning is recorded even if it has no effect."""
    actor: str = ""
    session: str = ""
    ref: str = ""
    process: e.Process | None = None
    payload: Any = None
    """What exactly a human is asked to approve: the arguments without the irrelevant ones."""
    paths: tuple[str, ...] = ()
    """Paths that it is known to write, in addition to those in its arguments."""
    again: bool = False
    """True if it may be begun again after it failed or was cut short."""
    intended: e.Effect | None = None
    """In a shadow: the effect that it would have. It is not made."""
    containment: Containment | None = None
    """How its command is held, if the caller can have it run in the sandbox."""
    foreseen: ForeseenAction = ForeseenAction()
    """What it would do, as far as known."""


def contained(wanted: Wanted) -> Wanted:
    """Return an action whose command runs in the sandbox, if it has to: what cannot leave is not unknown."""
    held, found = wanted.containment, wanted.foreseen
    if held is None or held.fence is None or not found.commands:
        return wanted
    if not held.every and found.effect is not e.Effect.UNKNOWN:
        return wanted
    wanted = msgspec.structs.replace(wanted, ref=f"{wanted.ref} {FENCED}".strip())
    if not held.fence.holds_everything:
        return wanted
    commands = tuple((command, within(known, held.fence)) for command, known in found.commands)
    effect = within(Foreseen(found.effect), held.fence).effect
    found = msgspec.structs.replace(found, effect=effect, commands=commands)
    return msgspec.structs.replace(wanted, effect=effect, foreseen=found)


def within(found: Foreseen, fence: Fence | None) -> Foreseen:
    """Return the effect of a command inside a fence: where nothing can leave, what is unknown can be taken back."""
    if fence is None or not fence.holds_everything or found.effect is not e.Effect.UNKNOWN:
        return found
    return Foreseen(e.Effect.RESTORABLE, irreversible=found.irreversible, pattern=found.pattern)
