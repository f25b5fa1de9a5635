"""What an agent is answered where its event could not be recorded: a call is refused, or goes on with a warning."""

from __future__ import annotations

from takeback.agents.dialects import Dialect
from takeback.agents.event import Answer, Decision, Do, Event, Kind
from takeback.errors import TakebackError
from takeback.workspace import Workspace


def answer(speech: Dialect, event: Event, error: Exception, opened: Workspace | None = None) -> Answer:
    """`opened` is the workspace, if it could be had: its settings say what becomes of the call."""
    hint = f" ({error.hint})" if isinstance(error, TakebackError) and error.hint else ""
    why = f"Takeback cannot protect this: {str(error) or type(error).__name__}{hint}"
    if event.kind is Kind.BEGIN and blocks(opened):
        return speech.answer(event, Decision(do=Do.DENY, reason=why, warning=why))
    return speech.answer(event, Decision(warning=why))


def blocks(opened: Workspace | None) -> bool:
    """Whether a call that cannot be recorded is refused.

    Only settings that a human wrote or accepted can say otherwise. Where the journal cannot be read, nobody can tell
    who wrote them.
    """
    if opened is None:
        return True
    try:
        return opened.settings.agents.when_unprotected == "block"
    except Exception:  # noqa: BLE001 - whatever is wrong with them, they allow nothing
        return True
