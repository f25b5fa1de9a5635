"""An action that is about to begin: what the gate decides on, and what is recorded."""

from __future__ import annotations

from typing import Any

import msgspec

from takeback.core import events as e
from takeback.engine.gate.foresight import ForeseenAction


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
    foreseen: ForeseenAction = ForeseenAction()
    """What it would do, as far as known."""
