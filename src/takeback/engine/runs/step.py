"""The context of an open run, and its steps: the parts of its plan and the usual boundary of a rollback."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING

from takeback.core import events as e
from takeback.core import ids
from takeback.core.history import History
from takeback.core.intents import IntentCancelled, IntentsReleased
from takeback.core.keys import CountTable
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


NAMES_SHOWN = 3

_here: ContextVar[tuple[Step, ...]] = ContextVar("takeback-steps", default=())


class Occurrences:
    """How often each intent has occurred so far."""

    def __init__(self) -> None:
        self._counts = CountTable()
        self._counting = threading.Lock()
        self.has_counted = False

    def __call__(self, intent: bytes) -> int:
        """Count one more occurrence, and return its number. Locked, so that threads do not get the same number."""
        with self._counting:
            self.has_counted = True
            return self._counts.add(intent)


class RunContext:
    """The state of an open run that its calls, steps, databases, locks and intents share."""

    def __init__(self, parts: RunParts, options: Options) -> None:
        self.parts = parts
        self.options = options
        self.tracker = parts.tracker
        self.ledger = parts.tracker.ledger
        self.at_work = AtWork()
        self.beat = Heartbeat(parts.tracker.life)
        self.id = ""
        self.body = ""
        """The action for what the run does outside its steps."""
        self.replayed = False
        """True if the run was committed earlier, so that its block only replays it."""
        self.again: set[Step] = set()
        """Completed steps whose blocks are being run again."""
        self.nth = Occurrences()

    @property
    def step(self) -> Step | None:
        """The step of the run that this code is in."""
        return next((step for step in reversed(_here.get()) if step._run is self), None)

    @property
    def action(self) -> str:
        """The action of the run that this code belongs to: a call, the body of a step, or of the run."""
        here = declare.current.get()
        if here and (known := self.ledger.history.actions.get(here[1])) and known.stream == self.id:
            return here[1]
        step = self.step
        while step and not step.body:
            step = step.above
        return step.body if step else self.body

    def as_action(self, name: str, parent: str = "") -> e.ActionBegan:
        """Return the action for the body of the run or of a step."""
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
        """Raise if a lock of the run was lost or an invariant does not hold."""
        self.ledger.refuse_lost(self.ledger.fenced(self.id))
        for invariant in self.options.invariants:
            if invariant() is False:
                raise InvariantBroken(f"{getattr(invariant, '__name__', invariant)} does not hold")


class Step:
    """A step of a run's plan, as a block."""

    def __init__(
        self,
        run: RunContext,
        path: str,
        above: Step | None,
        retries: int,
        uses: Sequence[str | Step] = (),
    ) -> None:
        self._run = run
        self._uses = tuple(uses)
        self.path = path
        self.above = above
        self.retries = retries
        self.id = ""
        self.body = ""
        self.done = False
        self._looked = False
        self._shared = False
        """True if others were at work while its block ran again: the changes may be theirs."""
        self.held: list[Database] = []
        """Transactions that are committed only if the step succeeds."""

    @property
    def name(self) -> str:
        """Its name without those of the steps around it."""
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
        """Return whether an earlier attempt completed it, so that its block need not run."""
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
                hint="a changed plan is another run: use another key",
            )
        take_back(run.parts.rollbacks, history, run.id, self.path)
        above = self.above.id if self.above else ""
        began = run.as_action(self.path, run.action)
        looking = run.options.checkpoint != "run"
        opened = e.StepBegan(self.path, above, uses=self._used())
        self.body = run.tracker.begin(began, stream=run.id, step=opened, looking=looking)
        self.id = history.actions[self.body].as_tool.step
        run.beat.add(self.body)

    def _used(self) -> tuple[str, ...]:
        """Return the ids of the steps whose results it uses. Raise UsageError if one has not been completed."""
        done = {
            step.name: step.id
            for step in self._run.ledger.history.runs[self._run.id].steps.values()
            if step.life is Life.DONE
        }
        named = [one.path if isinstance(one, Step) else one for one in self._uses]
        if missing := [name for name in named if name not in done]:
            raise UsageError(
                f"step {self.path!r} uses the result of {missing[0]!r}, which is not a completed step of run "
                f"{self._run.id}; nothing was begun"
            )
        return tuple(done[name] for name in named)

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
        """Look before and after the block of a completed step, to warn about what the block changes again."""
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
        """Note whether others are at work now: another thread in its own block, or an open action."""
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
        """Warn that the block of a completed step changed something again."""
        if names := sorted(changed):
            more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
            warnings.warn(
                f"step {self.path!r} was already done, and its block changed {', '.join(names[:NAMES_SHOWN])}{more} "
                "again. A block cannot be skipped: use `for step in run.steps([...]): with step: ...`, which skips "
                "completed steps, or `if not step.done:` inside the block",
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


def last_completed(history: History, run: str, body: str) -> int:
    """Return the record with which the last completed step ended before one of this attempt failed; 0 if none did.

    What came after it is taken back when a run pauses: steps beside the failed one go, too.
    """
    steps = history.runs[run].steps.values()
    began = ids.seq_of(body)
    failed = [seq for step in steps if step.life is not Life.DONE and (seq := ids.seq_of(step.id)) > began]
    ends = [
        history.actions[step.body].ended for step in steps if step.life is Life.DONE and stands(history, step)
    ]
    return max((end for end in ends if end < min(failed, default=end + 1)), default=0)


def releasing(history: History, run: str, step: str | None = None) -> list[e.Event]:
    """Return the events to record with the commit of a run or of a step: its intents are released.

    An intent bound to a step that did not commit is cancelled at the end of the run.
    """
    held = history.intents.held(run, step)
    ready = tuple(intent.id for intent in held if step is not None or not intent.step)
    stranded = [intent.id for intent in held if step is None and intent.step]
    words: list[e.Event] = [IntentsReleased(ready)] if ready else []
    return [*words, *map(IntentCancelled, stranded)]


def take_back(rollbacks: Rollbacks, history: History, run: str, step: str = "") -> None:
    """Take back what an unfinished step of this name, or the run outside any step, wrote to databases.

    It will be written again and must not be there twice. Raise ConflictError if someone else changed the same.
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
