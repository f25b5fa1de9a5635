"""The values that the use cases of a workspace take and return: plans, reports and results."""

from takeback.engine.outbox.service import ServiceListener
from takeback.engine.outbox.worker import Tally
from takeback.engine.rollback.report import BY_HAND, DOING, TITLES, WOULD_TITLES, RollbackReport, hint_of
from takeback.engine.runs.actions import ASKED, Action, Ask, Denied
from takeback.engine.runs.session import Session
from takeback.engine.stage.card import StageCard
from takeback.engine.tracking.command import CommandPlan, CommandResult
from takeback.engine.tracking.tracker import is_part

__all__ = [
    "ASKED",
    "BY_HAND",
    "DOING",
    "TITLES",
    "WOULD_TITLES",
    "Action",
    "Ask",
    "CommandPlan",
    "CommandResult",
    "Denied",
    "RollbackReport",
    "ServiceListener",
    "Session",
    "StageCard",
    "Tally",
    "hint_of",
    "is_part",
]
