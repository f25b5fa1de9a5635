"""The log of a workspace as a tree of values, and its numbers: loaded only by who shows them."""

from takeback.engine.describe.changed_names import names as changed_names
from takeback.engine.describe.changed_names import telling as telling_changes
from takeback.engine.describe.day import Day, DayNode, answer_to, day, flat, leaf
from takeback.engine.describe.recent import DecisionMade, LogFilter, things, time_named
from takeback.engine.describe.states import StateNote, Tone
from takeback.engine.describe.stats import AgentTally, Statistics, statistics
from takeback.engine.rollback.paths import path_filter

__all__ = [
    "AgentTally",
    "Day",
    "DayNode",
    "DecisionMade",
    "LogFilter",
    "StateNote",
    "Statistics",
    "Tone",
    "answer_to",
    "changed_names",
    "day",
    "flat",
    "leaf",
    "path_filter",
    "statistics",
    "telling_changes",
    "things",
    "time_named",
]
