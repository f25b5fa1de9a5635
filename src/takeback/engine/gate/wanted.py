"""An action that somebody wants to begin: what the gate decides on, and what is recorded."""

from __future__ import annotations

from typing import Any

import msgspec

from takeback.core import events as e
from takeback.engine.gate.foresight import ForeseenAction


class Wanted(msgspec.Struct, frozen=True):
    """An action as it is judged and recorded."""

    name: str
    effect: e.Effect
    key: str = ""
    plain: dict[str, Any] = {}
    """Its arguments as they are kept, `named` by their names where these can be told, `seen` as a log may show."""
    named: Any = None
    seen: Any = None
    tool: str = ""
    """Its name as the rules know it."""
    intent: str = ""
    """For a key that was given: what it is given for."""
    handlers: e.Handlers | None = None
    step: str = ""
    parent: str = ""
    looking: bool = False
    undeclared: bool = False
    """Whether nobody has said what it does."""
    apart: bool = False
    """Whether another process may end it, so that its beginning is recorded also where it has no effect."""
    actor: str = ""
    session: str = ""
    ref: str = ""
    process: e.Process | None = None
    payload: Any = None
    """What exactly a human is asked to allow: the arguments without those that do not matter."""
    paths: tuple[str, ...] = ()
    """Those that it is known to write, besides what its arguments say."""
    foreseen: ForeseenAction = ForeseenAction()
    """What it would do, as far as that was found out."""
