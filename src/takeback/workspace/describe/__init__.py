"""Names and texts of recorded things: what surfaces need to print a history, without the engine behind it."""

from takeback.engine.describe.diff import Diff, kind, verb
from takeback.engine.describe.replay import ReplayMoment, RunSnapshot, run_of
from takeback.engine.describe.states import (
    COMPACTED,
    actor_of,
    actor_short,
    is_taken_back,
    kind_of_run,
    line_of,
    name_of,
    notes_of,
    notes_of_run,
    notes_of_step,
    step_undone,
    undone,
)
from takeback.engine.describe.wording import (
    NOT_ALLOWED,
    body_of,
    call_text,
    fewest_ids,
    is_call,
    item_said,
    known_as,
    named,
    short,
    taken_back,
    waits_for_a_decision,
)
from takeback.engine.locks.leases import family_of, who
from takeback.engine.locks.left_behind import is_gone
from takeback.engine.runs.recorded_calls import in_doubt, stands
from takeback.resources.git.minor import MINOR as MINOR_OF_GIT

__all__ = [
    "COMPACTED",
    "MINOR_OF_GIT",
    "NOT_ALLOWED",
    "Diff",
    "ReplayMoment",
    "RunSnapshot",
    "actor_of",
    "actor_short",
    "body_of",
    "call_text",
    "family_of",
    "fewest_ids",
    "in_doubt",
    "is_call",
    "is_gone",
    "is_taken_back",
    "item_said",
    "kind",
    "kind_of_run",
    "known_as",
    "line_of",
    "name_of",
    "named",
    "notes_of",
    "notes_of_run",
    "notes_of_step",
    "run_of",
    "short",
    "stands",
    "step_undone",
    "taken_back",
    "undone",
    "verb",
    "waits_for_a_decision",
    "who",
]
