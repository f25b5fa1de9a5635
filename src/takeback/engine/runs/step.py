"""Steps: the parts of a run's plan, and the usual boundary of what is taken back."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING

from takeback.core import events as e
from takeback.core.history import History
from takeback.core.intents import IntentCancelled, IntentsReleased
from takeback.core.lifecycle import Life
from takeback.core.values import said
from takeback.engine.rollback.rollback import Rollbacks
from takeback.engine.runs.in_flight import wholly
from takeback.engine.runs.recorded_calls import stands
from takeback.errors import LeaseLost, UsageError

if TYPE_CHECKING:
    from takeback.engine.runs.database import Database
    from takeback.engine.runs.run import Run


NAMES_SHOWN = 3

_here: ContextVar[tuple[Step, ...]] = ContextVar("takeback-steps", default=())


def innermost(run: Run) -> Step | None:
    """The step of a run that this code is in."""
    return next((step for step in reversed(_here.get()) if step.run is run), None)


class Step:
    """A step of a run's plan, as a block."""

    def __init__(self, run: Run, path: str, above: Step | None, retries: int) -> None:
        self.run = run
        self.path = path
        self.above = above
        self.retries = retries
        self.id = ""
        self.body = ""
        self.done = False
        self._looked = False
        self._shared = False
        """Whether others were at work while its block was gone through again: what changed may be theirs."""
        self.held: list[Database] = []
        """Transactions that last only if the step does."""

    @property
    def name(self) -> str:
        """Its own name, without those of the steps around it."""
        return self.path.removeprefix(f"{self.above.path}/") if self.above else self.path

    def __enter__(self) -> Step:
        self._begin()
        _here.set((*_here.get(), self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _here.set(tuple(step for step in _here.get() if step is not self))
        self._end(error)

    async def __aenter__(self) -> Step:
        _, cancelled = await wholly(self._begin)
        if cancelled:
            await wholly(lambda: self._end(cancelled))
            raise cancelled
        _here.set((*_here.get(), self))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _here.set(tuple(step for step in _here.get() if step is not self))
        _, cancelled = await wholly(lambda: self._end(error))
        if cancelled:
            raise cancelled

    def is_over(self) -> bool:
        """Whether an earlier attempt completed it, so that its block need not be gone through."""
        run = self.run
        history = run._ledger.history
        for step in list(history.runs[run.id].steps.values()):
            if step.name == self.path and step.life is Life.DONE and stands(history, step):
                self.id, self.done = step.id, True
                run._parts.file.step_done(self.path)
        return self.done

    def _begin(self) -> None:
        run = self.run
        run.at_work.refuse_closed()
        history = run._ledger.history
        if self.is_over():
            return self._look(before=True)
        if run._replayed:
            raise UsageError(
                f"run {run.id} was committed without a step {self.path!r}; nothing was begun",
                hint="a changed plan is another run: give it another key",
            )
        take_back(run._parts.rollbacks, history, run.id, self.path)
        above = self.above.id if self.above else ""
        began = run._as_action(self.path, run._innermost())
        looking = run.options.checkpoint != "run"
        opened = e.StepBegan(self.path, above)
        self.body = run._tracker.begin(began, stream=run.id, step=opened, looking=looking)
        self.id = history.actions[self.body].as_tool.step
        run._beat.add(self.body)

    def _end(self, error: BaseException | None) -> None:
        if error is None:
            self.run.at_work.refuse_forked()
        if not self.body or self.run.at_work.is_forked():
            return self._look(before=False)
        self.run._beat.show(last=True)
        outcome, why = e.Outcome.DONE, ""
        try:
            if error is None:
                self.run._check_invariants()
                while self.held:
                    self.held[0].commit()
                    del self.held[0]
            else:
                outcome, why = e.Outcome.FAILED, said(error)
        except BaseException as broken:
            outcome, why = e.Outcome.FAILED, said(broken)
            raise
        finally:
            for database in self.held:
                database.abort(why)
            ended: list[e.Event] = [e.StepEnded(self.id, outcome, why)]
            if outcome is e.Outcome.DONE:
                ended += releasing(self.run._ledger.refresh(), self.run.id, self.path)
            self._close(outcome, why, ended)
            self.run._beat.remove(self.body)
        if outcome is e.Outcome.DONE:
            self.run._parts.file.step_done(self.path)

    def _look(self, *, before: bool) -> None:
        """Look around the block of a step that was done already: what it changes, it changes once more."""
        run, tracker = self.run, self.run._tracker
        if run.options.checkpoint == "run" or run.at_work.is_forked() or self._looked is before:
            return
        self._looked = before
        self._note_others(before=before)
        with tracker.lock.held():
            run._ledger.refresh()
            if before:
                tracker.observe()  # what changed before the step is not the step's
                return
            marks = tracker.marks()
            if changes := tracker.since_last(marks):
                tracker.attribute(changes, marks)
        if not self._shared:
            self.warn_again(change.target.said for change in changes if change.before != change.after)

    def _note_others(self, *, before: bool) -> None:
        """Note whether anybody else is at work now: another thread in a block of its own, or an open action."""
        run = self.run
        if before:
            run.again.add(self)
        lineage = set(self._lineage())
        beside = [step for step in run.again if step not in lineage and self not in step._lineage()]
        own = {run._body, *(step.body for step in lineage)}
        if beside or any(action.id not in own for action in run._ledger.history.open_actions()):
            for step in (self, *beside):
                step._shared = True
        if not before:
            run.again.discard(self)

    def _lineage(self) -> Iterator[Step]:
        """Yield this step and those around it."""
        step: Step | None = self
        while step:
            yield step
            step = step.above

    def warn_again(self, changed: Iterable[str]) -> None:
        """Say that a step that was done changed something again."""
        if names := sorted(changed):
            more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
            warnings.warn(
                f"step {self.path!r} was done already, and its block changed {', '.join(names[:NAMES_SHOWN])}{more} "
                "again. A block cannot be skipped: use `for step in run.steps([...]): with step: ...`, which leaves "
                "out what is done, or `if not step.done:` inside of it",
                stacklevel=3,
            )

    def _close(self, outcome: e.Outcome, why: str, ended: list[e.Event]) -> None:
        end = self.run._tracker.end
        try:
            end(self.body, outcome, why=why, after=ended)
        except LeaseLost as lost:
            # A lock was lost at the last moment: what was done is recorded, and nothing is released.
            failed = e.Outcome.FAILED
            end(self.body, failed, why=lost.message, after=[e.StepEnded(self.id, failed, lost.message)])
            raise


def releasing(history: History, run: str, step: str | None = None) -> list[e.Event]:
    """What is to be recorded with the commit of a run, or of a step: that its intents may leave.

    What was to leave with a step that did not commit is cancelled at the end of the run.
    """
    held = history.intents.held(run, step)
    ready = tuple(intent.id for intent in held if step is not None or not intent.step)
    words: list[e.Event] = [IntentsReleased(ready)] if ready else []
    return [*words, *(IntentCancelled(intent.id) for intent in held if intent.id not in ready)]


def take_back(rollbacks: Rollbacks, history: History, run: str, step: str = "") -> None:
    """What was written in an unfinished step of this name, or in the run itself outside of any step.

    It is written again, and must not be there twice. ConflictError where somebody else changed the same.
    """
    recorded = history.runs[run]
    again = {
        known.id for known in recorded.steps.values() if known.name == step and known.life is not Life.DONE
    }
    for id in reversed(list(recorded.actions)):
        began = history.actions[id].as_tool
        if began.effect is not e.Effect.TRANSACTIONAL:
            continue
        if (began.step in again if step else not began.step) and history.live(id):
            rollbacks.once_more(id)
