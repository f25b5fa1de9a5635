"""Names and texts of recorded things: what surfaces need to print a history, without the engine behind it."""

from takeback.engine.describe.diff import Diff, kind, verb
from takeback.engine.describe.replay import ReplayMoment, RunSnapshot, run_of
from takeback.engine.describe.wording import (
    NOT_ALLOWED,
    body_of,
    call_text,
    is_call,
    named,
    short,
    taken_back,
    waits_for_a_decision,
)
from takeback.engine.locks.leases import family_of, who
from takeback.engine.locks.left_behind import is_gone
from takeback.engine.runs.recorded_calls import in_doubt, stands
from takeback.resources.git.words import MINOR as MINOR_OF_GIT

__all__ = [
    "MINOR_OF_GIT",
    "NOT_ALLOWED",
    "Diff",
    "ReplayMoment",
    "RunSnapshot",
    "body_of",
    "call_text",
    "family_of",
    "in_doubt",
    "is_call",
    "is_gone",
    "kind",
    "named",
    "run_of",
    "short",
    "stands",
    "taken_back",
    "verb",
    "waits_for_a_decision",
    "who",
]
