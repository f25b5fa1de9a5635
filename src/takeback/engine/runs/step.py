"""A run at work, and its steps: the parts of its plan, and the usual boundary of what is taken back."""

from __future__ import annotations

import itertools
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
from takeback.engine.runs import declare
from takeback.engine.runs.in_flight import AtWork, wholly
from takeback.engine.runs.parts import Options, RunParts
from takeback.engine.runs.recorded_calls import stands
from takeback.engine.tracking.signs_of_life import Heartbeat
from takeback.errors import InvariantBroken, LeaseLost, UsageError
from takeback.system import processes

if TYPE_CHECKING:
    from takeback.engine.runs.database import Database


BEAT_S = 1.0
NAMES_SHOWN = 3

_here: ContextVar[tuple[Step, ...]] = ContextVar("takeback-steps", default=())


class RunContext:
    """A run at work, as its calls, steps, databases, locks and intents see it: its parts, and where it stands."""

    def __init__(self, parts: RunParts, options: Options) -> None:
        self.parts = parts
        self.options = options
        self.tracker = parts.tracker
        self.ledger = parts.tracker.ledger
        self.at_work = AtWork()
        self.beat = Heartbeat(parts.tracker.life, BEAT_S)
        self.id = ""
        self.body = ""
        """The action that stands for what the run does outside of its steps."""
        self.replayed = False
        """Whether the run was committed earlier, so that its block is only gone through again."""
        self.again: set[Step] = set()
        """Steps that were done already and whose blocks are being gone through again."""
        self._intents: dict[bytes, Iterator[int]] = {}

    @property
    def step(self) -> Step | None:
        """The step of the run that this code is in."""
        return next((step for step in reversed(_here.get()) if step._run is self), None)

    @property
    def action(self) -> str:
        """The action of the run that is at work here: a call, the body of a step, or of the run."""
        if (here := declare.current.get()) and here[1] in self.ledger.history.runs[self.id].actions:
            return here[1]
        step = self.step
        while step and not step.body:
            step = step.above
        return step.body if step else self.body

    def nth(self, intent: bytes) -> int:
        """Count how often this was wanted so far. One step for the interpreter, so threads do not get the same."""
        return next(self._intents.setdefault(intent, itertools.count(1)))

    def as_action(self, name: str, parent: str = "") -> e.ActionBegan:
        """Return the body of the run, or of a step, as the action that it is."""
        began = self.options.began
        return e.ActionBegan(
            name,
            e.Effect.RESTORABLE,
            actor=began.actor,
            session=began.session,
            parent=parent or began.parent,
            ref=began.ref,
            process=processes.this_process(),
        )

    def check_invariants(self) -> None:
        """Raise where a lock of the run was lost, or an invariant does not hold."""
        self.ledger.refuse_lost(self.ledger.fenced(self.id))
        for invariant in self.options.invariants:
            if invariant() is False:
                raise InvariantBroken(f"{getattr(invariant, '__name__', invariant)} does not hold")


class Step:
    """A step of a run's plan, as a block."""

    def __init__(self, run: RunContext, path: str, above: Step | None, retries: int) -> None:
        self._run = run
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
        run = self._run
        history = run.ledger.history
        for step in list(history.runs[run.id].steps.values()):
            if step.name == self.path and step.life is Life.DONE and stands(history, step):
                self.id, self.done = step.id, True
                run.parts.file.step_done(self.path)
        return self.done

    def _begin(self) -> None:
        run = self._run
        run.at_work.refuse_closed()
        history = run.ledger.history
        if self.is_over():
            return self._look(before=True)
        if run.replayed:
            raise UsageError(
                f"run {run.id} was committed without a step {self.path!r}; nothing was begun",
                hint="a changed plan is another run: give it another key",
            )
        take_back(run.parts.rollbacks, history, run.id, self.path)
        above = self.above.id if self.above else ""
        began = run.as_action(self.path, run.action)
        looking = run.options.checkpoint != "run"
        opened = e.StepBegan(self.path, above)
        self.body = run.tracker.begin(began, stream=run.id, step=opened, looking=looking)
        self.id = history.actions[self.body].as_tool.step
        run.beat.add(self.body)

    def _end(self, error: BaseException | None) -> None:
        if error is None:
            self._run.at_work.refuse_forked()
        if not self.body or self._run.at_work.is_forked():
            return self._look(before=False)
        self._run.beat.show(last=True)
        outcome, why = e.Outcome.DONE, ""
        try:
            if error is None:
                self._run.check_invariants()
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
                ended += releasing(self._run.ledger.refresh(), self._run.id, self.path)
            self._close(outcome, why, ended)
            self._run.beat.remove(self.body)
        if outcome is e.Outcome.DONE:
            self._run.parts.file.step_done(self.path)

    def _look(self, *, before: bool) -> None:
        """Look around the block of a step that was done already: what it changes, it changes once more."""
        run, tracker = self._run, self._run.tracker
        if run.options.checkpoint == "run" or run.at_work.is_forked() or self._looked is before:
            return
        self._looked = before
        self._note_others(before=before)
        with tracker.lock.held():
            run.ledger.refresh()
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
        run = self._run
        if before:
            run.again.add(self)
        lineage = set(self._lineage())
        beside = [step for step in run.again if step not in lineage and self not in step._lineage()]
        own = {run.body, *(step.body for step in lineage)}
        if beside or any(action.id not in own for action in run.ledger.history.open_actions()):
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
        end = self._run.tracker.end
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
