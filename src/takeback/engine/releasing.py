"""Letting go of what was held: the intents of a run, or of a step, that has committed."""

from __future__ import annotations

from takeback.core import events as e
from takeback.core.history import History
from takeback.core.intents import IntentCancelled, IntentsReleased


def releasing(history: History, run: str, step: str | None = None) -> list[e.Event]:
    """What is to be recorded with the commit of a run, or of a step: that its intents may leave.

    What was to leave with a step that did not commit is cancelled at the end of the run.
    """
    held = history.intents.held(run, step)
    ready = tuple(intent.id for intent in held if step is not None or not intent.step)
    words: list[e.Event] = [IntentsReleased(ready)] if ready else []
    return [*words, *(IntentCancelled(intent.id) for intent in held if intent.id not in ready)]
