"""What an agent is answered where its event could not be recorded: a call is refused, or goes on with a warning."""

from __future__ import annotations

from takeback.agents.dialects import Dialect
from takeback.agents.event import Answer, Decision, Do, Event, Kind
from takeback.errors import TakebackError
from takeback.workspace import Workspace

_told: set[tuple[str, str]] = set()
"""What is missing of Takeback, and the sessions that know it."""


class Unprotected(Exception):
    """An event could not be recorded; and whether a call is refused for it. It never leaves the hook."""

    def __init__(self, error: Exception, *, blocks: bool = True) -> None:
        super().__init__(str(error))
        self.error = error
        self.blocks = blocks


def answer(speech: Dialect, event: Event, failed: Unprotected) -> Answer:
    error = failed.error
    said = str(error) or type(error).__name__
    if isinstance(error, TakebackError):
        said = error.message + (f" ({error.hint})" if error.hint else "")
    why = f"Takeback cannot protect this: {said}"
    if isinstance(error, ImportError):
        # Where a part of Takeback is missing it is as if all of it were: that holds nobody up, and is said once.
        is_known = (event.session, said) in _told
        _told.add((event.session, said))
        return speech.answer(event, Decision(warning="" if is_known else why))
    if event.kind is Kind.BEGIN and failed.blocks:
        return speech.answer(event, Decision(do=Do.DENY, reason=why, warning=why))
    return speech.answer(event, Decision(warning=why))


def blocks(opened: Workspace) -> bool:
    """Whether a call that cannot be recorded is refused.

    Only settings that a human wrote or accepted can say otherwise. Where the journal cannot be read, nobody can tell
    who wrote them.
    """
    try:
        return opened.settings.agents.when_unprotected == "block"
    except Exception:  # noqa: BLE001 - whatever is wrong with them, they allow nothing
        return True
