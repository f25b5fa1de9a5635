"""The goals, as data, and the table that says which are met.

Goals hold for a tree of 50,000 files. Times are milliseconds; only ratios carry over to other machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

GIT, GEMINI, OPENCODE, RESTIC = "tuned git", "Gemini CLI", "opencode", "restic"
FLOOR = "floor"


@dataclass(frozen=True)
class Goal:
    """One row: a limit, and how many times better than each peer it has to be."""

    row: str
    limit: float | None
    times: Mapping[str, float] = field(default_factory=dict)
    unit: str = "ms"


GOALS = (
    Goal("1 changed, with watcher", 3, {GIT: 75, OPENCODE: 85, GEMINI: 140}),
    Goal("0 changed, with watcher", 0.5, {OPENCODE: 280}),
    Goal("100 changed, with watcher", 10, {OPENCODE: 40}),
    Goal("1 changed, scan, no watcher", 150, {GIT: 1.5, OPENCODE: 1.5}),
    Goal("restore 1, verified", 4, {OPENCODE: 11}),
    Goal("restore 100, verified", 25, {GIT: 4.5, OPENCODE: 4}),
    Goal("first snapshot", 2500, {GIT: 4, RESTIC: 3}),
    Goal("first snapshot, CPU time", None),
    Goal("store after compaction", None, {RESTIC: 1}, unit="MB"),
    Goal("full hash verify", 600),
    Goal("verify --deep, store too", None),
    Goal("torture tree", 0, unit="differences"),
)

Measured = dict[str, dict[str, float]]
"""By row and system."""


def table(measured: Measured, systems: list[str]) -> list[str]:
    """Return a line for each row: ours, the floor, the peers with their ratio to ours, the goal and the verdict."""
    head = f"{'':30}{'takeback':>12}{FLOOR:>18}" + "".join(f"{name:>20}" for name in systems) + "   goal"
    lines = [head, "-" * len(head)]
    for goal in GOALS:
        got = measured.get(goal.row)
        if got is None:
            continue
        ours = got["takeback"]
        cells = [f"{goal.row:30}{_number(ours, goal.unit):>12}{_floor(got.get(FLOOR), ours, goal):>18}"]
        cells += [f"{_peer(got.get(name), ours, goal):>20}" for name in systems]
        lines.append("".join(cells) + f"   {verdict(goal, got)}")
    return lines


def verdict(goal: Goal, got: Mapping[str, float]) -> str:
    """Return the goal as text, and say what is met, what is missed, and what the floor itself would miss."""
    ours, floor = got["takeback"], got.get(FLOOR, 0.0)
    parts = []
    if goal.limit is not None:
        parts.append(f"≤ {goal.limit:g} {goal.unit} {_word(ours, floor, goal.limit)}")
    for name, times in goal.times.items():
        if name in got:
            parts.append(f"≥ {times:g}× {name} {_word(ours, floor, got[name] / times)}")
        else:
            parts.append(f"≥ {times:g}× {name} not measured")
    return "; ".join(parts)


def missed(measured: Measured) -> list[str]:
    return [
        goal.row for goal in GOALS if goal.row in measured and "MISSED" in verdict(goal, measured[goal.row])
    ]


def _word(ours: float, floor: float, limit: float) -> str:
    if ours <= limit:
        return "met"
    return "out of reach, also for the floor" if floor > limit else "MISSED"


def _number(value: float, unit: str) -> str:
    if unit == "differences":
        return f"{value:,.0f}"
    return f"{value:.2f} {unit}" if value < 10 else f"{value:,.0f} {unit}"


def _floor(value: float | None, ours: float, goal: Goal) -> str:
    """Return the floor, and how many times as long we take."""
    return "–" if value is None else f"{_number(value, goal.unit)} {ours / value:.1f}×"


def _peer(value: float | None, ours: float, goal: Goal) -> str:
    if value is None:
        return "–"
    times = f" {value / ours:,.1f}×" if ours and goal.unit != "differences" else ""
    return _number(value, goal.unit) + times
