"""What an interrupted attempt had committed to databases, taken back before the same is tried again."""

from __future__ import annotations

from takeback.core import events as e
from takeback.core.history import History
from takeback.core.lifecycle import Life
from takeback.engine.rollback import Rollbacks


def take_back(rollbacks: Rollbacks, history: History, run: str, step: str = "") -> None:
    """What was written in an unfinished step of this name, or in the run itself outside of any step.

    It is written again, and must not be there twice. ConflictError where somebody else changed the same.
    """
    recorded = history.runs[run]
    again = {
        known.id for known in recorded.steps.values() if known.name == step and known.life is not Life.DONE
    }
    for id in reversed(list(recorded.actions)):
        began = history.actions[id].began
        if not isinstance(began, e.ActionBegan) or began.effect is not e.Effect.TRANSACTIONAL:
            continue
        if (began.step in again if step else not began.step) and history.live(id):
            rollbacks.once_more(id)
