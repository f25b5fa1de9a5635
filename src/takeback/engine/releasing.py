"""Letting go of what was held: the intents of a run, or of a step, that has committed."""

from __future__ import annotations

from takeback.core import events as e
from takeback.core.history import History
from takeback.core.intents import IntentsReleased


def releasing(history: History, run: str, step: str | None = None) -> list[e.Event]:
    """What is to be recorded with the commit of a run, or of a step: that its intents may leave."""
    held = [intent.id for intent in history.intents.held(run, step)]
    return [IntentsReleased(tuple(held))] if held else []
