"""Which steps depend on others: a step that used the result of another does not outlive it.

Two changes of one target are found by comparing targets. A dependence is not: a step that was told a meeting's id and
wrote it into a letter changed another target, and yet the letter is wrong once the meeting is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from takeback.core import ids
from takeback.core.entities import RecordedStep
from takeback.core.history import History
from takeback.core.lifecycle import Life


class Dependence(msgspec.Struct, frozen=True):
    """The steps that depend on what is to be taken back, in order."""

    standing: tuple[RecordedStep, ...] = ()
    """Those that changed something that still stands."""
    silent: tuple[RecordedStep, ...] = ()
    """Those that changed nothing: only their results are out of date."""


def dependents(history: History, chosen: Collection[str]) -> Dependence:
    """Return the steps that used the results of the steps of these actions, directly or through others."""
    standing: list[RecordedStep] = []
    silent: list[RecordedStep] = []
    for run, gone in _steps_of(history, chosen).items():
        for step in history.runs[run].steps.values():  # in the order in which they began
            if step.id in gone or gone.isdisjoint(step.uses):
                continue
            gone.add(step.id)
            actions = history.actions_in(step.id)
            if step.life is Life.OPEN or all(history.is_undone(id) for id in actions):
                continue
            (standing if any(history.live(id) for id in actions) else silent).append(step)
    return Dependence(_in_order(standing), _in_order(silent))


def _steps_of(history: History, chosen: Collection[str]) -> dict[str, set[str]]:
    """Return the steps that these actions belong to, by run."""
    found: dict[str, set[str]] = {}
    for id in chosen:
        action = history.actions[id]
        if action.as_tool.step and action.stream in history.runs:
            found.setdefault(action.stream, set()).add(action.as_tool.step)
    return found


def _in_order(steps: Iterable[RecordedStep]) -> tuple[RecordedStep, ...]:
    return tuple(sorted(steps, key=lambda step: ids.seq_of(step.id)))
