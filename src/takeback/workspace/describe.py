"""Names and texts of recorded things: what surfaces need to print a history, without the engine behind it."""

from takeback.engine.describe.changed_names import names as changed_names
from takeback.engine.describe.changed_names import telling as telling_changes
from takeback.engine.describe.day import Day, DayNode, answer_to, day, flat, leaf
from takeback.engine.describe.diff import Diff, kind, verb
from takeback.engine.describe.recent import DecisionMade, LogFilter, things, time_named
from takeback.engine.describe.replay import ReplayMoment, RunSnapshot, run_of
from takeback.engine.describe.states import (
    COMPACTED,
    StateNote,
    Tone,
    actor_of,
    actor_short,
    is_taken_back,
    kind_of_run,
    name_of,
    notes_of,
    notes_of_run,
    notes_of_step,
    step_undone,
    taken_back,
    undone,
)
from takeback.engine.describe.stats import Statistics, Tally, statistics
from takeback.engine.describe.wording import NOT_ALLOWED, body_of, call_text, is_call, named, short
from takeback.engine.locks.leases import family_of, who
from takeback.engine.locks.left_behind import is_gone
from takeback.engine.rollback.paths import path_filter
from takeback.engine.runs.recorded_calls import in_doubt, stands
from takeback.resources.git.words import MINOR as MINOR_OF_GIT

__all__ = [
    "COMPACTED",
    "MINOR_OF_GIT",
    "NOT_ALLOWED",
    "Day",
    "DayNode",
    "DecisionMade",
    "Diff",
    "LogFilter",
    "ReplayMoment",
    "RunSnapshot",
    "StateNote",
    "Statistics",
    "Tally",
    "Tone",
    "actor_of",
    "actor_short",
    "answer_to",
    "body_of",
    "call_text",
    "changed_names",
    "day",
    "family_of",
    "flat",
    "in_doubt",
    "is_call",
    "is_gone",
    "is_taken_back",
    "kind",
    "kind_of_run",
    "leaf",
    "name_of",
    "named",
    "notes_of",
    "notes_of_run",
    "notes_of_step",
    "path_filter",
    "run_of",
    "short",
    "stands",
    "statistics",
    "step_undone",
    "taken_back",
    "telling_changes",
    "things",
    "time_named",
    "undone",
    "verb",
    "who",
]
