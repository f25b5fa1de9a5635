"""A long-running command cut into parts, each an action that can be taken back alone.

A part is a step of the command's run. Its action is inside the action of the command, which owns the processes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from takeback.core import events as e
from takeback.core.entities import RecordedAction
from takeback.core.lifecycle import Life
from takeback.engine.tracking.tracker import Tracker, name_of_part, shared
from takeback.errors import TakebackError
from takeback.system import crash_points

NAME_MAX = 60
CUT = crash_points.crash_point("command-cut")


class CommandParts:
    """The parts of one command. The first begins with it, the last ends with it."""

    def __init__(self, tracker: Tracker, whole: str, every_s: float) -> None:
        self._tracker = tracker
        self._whole = whole
        self._every_s = every_s
        self._due = time.monotonic() + every_s
        self._open = ""
        self.missed: list[str] = []
        """Why parts could not be ended in time; such a part goes on until the next cut."""
        self._begin(tracker.ledger.history.actions[whole].began.marks)

    def show_life(self) -> None:
        """Show a sign of life for the command and its open part."""
        for id in filter(None, (self._whole, self._open)):
            self._tracker.life.show(id)

    def tick(self) -> None:
        """Begin the next part if it is time. If that fails, the command goes on undisturbed."""
        if time.monotonic() < self._due:
            return
        try:
            self._cut()
        except (TakebackError, OSError) as error:
            self.missed.append(str(error))
        self._due = time.monotonic() + self._every_s

    def end(
        self, outcome: e.Outcome, *, exit_code: int, why: str, left: Iterable[e.Process]
    ) -> RecordedAction:
        """Record the end of the last part, which owns the processes left running, and of the command."""
        tracker = self._tracker
        with tracker.lock.held():
            if self._open:
                part = tracker.ledger.refresh().actions[self._open]
                left = {*left, *tracker.leaves(tracker.whole(part))}
                ended = [e.StepEnded(_step(part), outcome)]
                tracker.end(part.id, outcome, exit_code=exit_code, why=why, after=ended, left=left)
                tracker.life.end(part.id)
                left = ()
            return tracker.end_single(self._whole, outcome, exit_code=exit_code, why=why, left=left)

    def _cut(self) -> None:
        """End this part and begin the next with the same look, so that no change falls in between.

        A part in which nothing changed goes on, and so does one in which another action is open.
        """
        tracker = self._tracker
        with tracker.lock.held():
            history = tracker.ledger.refresh()
            tracker.end_gone()
            if not self._open:
                return self._begin(tracker.observe())
            part = history.actions[self._open]
            unended = [*history.open_actions(), *history.open_actions(Life.BACKGROUND)]
            if any(action.as_tool.parent == part.id for action in unended):
                return None
            marks = tracker.marks()
            others = [owner for owner in tracker.owners() if owner is not part]
            changes = shared(tracker.since_last(marks), others)
            if not changes and not part.made:
                return None
            name = history.runs[part.stream].steps[_step(part)].name
            message = f"after {name} of {history.actions[self._whole].name[:NAME_MAX]}"
            tracker.ledger.append(
                [
                    e.ActionEnded(part.id, e.Outcome.DONE, changes, marks),
                    e.StepEnded(_step(part), e.Outcome.DONE),
                    e.CheckpointTaken(message, part.actor, marks),
                ],
                part.stream,
            )
            self._open = ""
            tracker.life.end(part.id)
            tracker.ledger.journal.sync()
            crash_points.reach(CUT)
            self._begin(marks)

    def _begin(self, marks: tuple[e.Mark, ...]) -> None:
        tracker = self._tracker
        history = tracker.ledger.history
        whole = history.actions[self._whole]
        name = name_of_part(len(history.runs[whole.stream].steps) + 1)
        (step,) = tracker.ledger.append([e.StepBegan(name)], whole.stream)
        began = e.ActionBegan(
            f"{name} of {whole.name}",
            _effect(whole),
            actor=whole.actor,
            step=step.id,
            parent=whole.id,
            marks=marks,
        )
        (record,) = tracker.ledger.append([began], whole.stream)
        self._open = record.id
        tracker.life.show(record.id)


def _effect(whole: RecordedAction) -> e.Effect:
    """Return the effect of a part. Whether an irreversible effect happened in this part is unknown."""
    effect = whole.began.effect if isinstance(whole.began, e.ActionBegan) else e.Effect.UNKNOWN
    return e.Effect.UNKNOWN if effect is e.Effect.IRREVERSIBLE else effect


def _step(part: RecordedAction) -> str:
    return part.as_tool.step
