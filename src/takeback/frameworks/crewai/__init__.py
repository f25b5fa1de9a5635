"""CrewAI: tools and models whose calls are actions of a thread, and the state of Flows stored with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from takeback.frameworks.supported import CREWAI, on_first_use

if TYPE_CHECKING:
    from takeback.frameworks.calling import HumanAnswer
    from takeback.frameworks.crewai.flows import TakebackPersistence
    from takeback.frameworks.crewai.model import protect_model
    from takeback.frameworks.crewai.tools import StoppedByTakeback, WaitingForApproval, protect_tools
else:
    __getattr__ = on_first_use(
        __name__,
        "crewai",
        CREWAI,
        {
            "HumanAnswer": "tools",
            "TakebackPersistence": "flows",
            "StoppedByTakeback": "tools",
            "WaitingForApproval": "tools",
            "protect_model": "model",
            "protect_tools": "tools",
        },
    )

__all__ = [
    "HumanAnswer",
    "StoppedByTakeback",
    "TakebackPersistence",
    "WaitingForApproval",
    "protect_model",
    "protect_tools",
]
