"""Runs and steps: one attempt of an agent at a task, which is kept as a whole or taken back as a whole."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Any

import msgspec

from takeback.core import events as e
from takeback.core import ids
from takeback.core.change import Change
from takeback.core.lifecycle import Life
from takeback.core.rollback import OnConflict, Verdict
from takeback.core.subjects import Checkpoint
from takeback.core.subjects import Run as Recorded
from takeback.engine import actions, processes
from takeback.engine.actions import Function
from takeback.engine.calling import Caller
from takeback.engine.calls import Calls
from takeback.engine.gate import Gate
from takeback.engine.life import Heartbeat
from takeback.engine.memory import Memory, Place
from takeback.engine.report import RollbackReport
from takeback.engine.rollback import Rollbacks
from takeback.engine.tracker import Tracker
from takeback.errors import (
    ConflictError,
    HandedOver,
    InvariantBroken,
    RollbackIncomplete,
    RunBusy,
    UsageError,
)

BEAT_S = 1.0
POLL_S = 0.05

_here: ContextVar[tuple[Step, ...]] = ContextVar("takeback-steps", default=())


class Options(msgspec.Struct, frozen=True):
    """How a run is to go."""

    name: str
    key: str = ""
    checkpoint: str = "step"
    on_conflict: OnConflict = OnConflict.KEEP
    invariants: tuple[Callable[[], object], ...] = ()
    actor: str = ""
    session: str = ""
    parent: str = ""
    ref: str = ""
    command: tuple[str, ...] = ()
    autopilot: bool = False
    wait_s: float = 60.0


class Parts(msgspec.Struct, frozen=True):
    """What a run is made of."""

    tracker: Tracker
    rollbacks: Rollbacks
    calls: Calls
    gate: Gate
    recover: Callable[[], None]


class Run:
    """One attempt. At the end of its block it is committed; an exception takes it all back and goes on."""

    def __init__(self, parts: Parts, options: Options) -> None:
        self.options = options
        self.id = ""
        self.report: RollbackReport | None = None
        """What was taken back when the run failed."""
        self._parts = parts
        self._tracker = parts.tracker
        self._ledger = parts.tracker.ledger
        self._body = ""
        self._replayed = False
        self._names: Counter[str] = Counter()
        self._calls = Counter[str]()
        self._beat = Heartbeat(parts.tracker.life, BEAT_S)

    # The block

    def __enter__(self) -> Run:
        deadline = time.monotonic() + self.options.wait_s
        while not self._begin():
            if time.monotonic() > deadline:
                raise RunBusy(
                    f"the run with the key {self.options.key!r} goes on in another process; nothing was begun",
                    hint="wait for it, or use another key",
                )
            time.sleep(POLL_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._replayed:
                return
            if error is None:
                try:
                    self._check_invariants()
                    self._tracker.end(self._body, e.Outcome.DONE, after=[e.RunEnded(e.Outcome.DONE)])
                except BaseException as late:
                    self._fail(late)
                    raise
            else:
                self._fail(error)
        finally:
            self._beat.stop()

    async def __aenter__(self) -> Run:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)

    def _begin(self) -> bool:
        """Begin, continue or replay; False while another process is at it."""
        with self._tracker.lock.held():
            self._parts.recover()
            earlier = self._earlier()
            if earlier is None:
                self._start(1)
            elif earlier.life is Life.OPEN:
                return False
            elif earlier.life is Life.INTERRUPTED:
                self._start_again(earlier)
            elif earlier.life is Life.HANDED_OVER:
                raise HandedOver(
                    f"run {earlier.id} was handed over: {earlier.why}. Nothing was begun",
                    hint=f"a human gives it back with `takeback handover return {earlier.id}`",
                )
            elif earlier.life is Life.DONE and not self._is_taken_back(earlier):
                self.id, self._replayed = earlier.id, True
            else:
                self._start(earlier.began.generation + 1)
        return True

    def _earlier(self) -> Recorded | None:
        history = self._ledger.history
        found = history.keyed_runs.get(self.options.key, ()) if self.options.key else ()
        return history.runs[found[-1]] if found else None

    def _is_taken_back(self, run: Recorded) -> bool:
        history = self._ledger.history
        return bool(run.actions) and all(history.is_undone(id) for id in run.actions if _is_tool(history, id))

    def _start(self, generation: int) -> None:
        o = self.options
        began = e.RunBegan(
            o.name,
            o.key,
            o.actor,
            o.session,
            o.parent,
            o.ref,
            generation,
            o.command,
            o.autopilot,
        )
        self._body = self._tracker.begin(self._as_action(o.name), before=[began])
        self.id = self._ledger.history.actions[self._body].stream
        self._beat.add(self._body)

    def _start_again(self, earlier: Recorded) -> None:
        self.id = earlier.id
        stopped = [
            e.StepEnded(step.id, e.Outcome.STOPPED, "interrupted")
            for step in earlier.steps.values()
            if step.life is Life.OPEN
        ]
        before: list[e.Event] = [e.RunResumed(self.options.actor), *stopped]
        self._body = self._tracker.begin(self._as_action(self.options.name), stream=self.id, before=before)
        self._beat.add(self._body)

    def _as_action(self, name: str, parent: str = "") -> e.ActionBegan:
        """The body of a run or of a step, as the action that it is."""
        o = self.options
        return e.ActionBegan(
            name,
            e.Effect.RESTORABLE,
            actor=o.actor,
            session=o.session,
            parent=parent or o.parent,
            ref=o.ref,
            process=processes.this_process(),
        )

    def _fail(self, error: BaseException) -> None:
        """End badly: hand over, or take everything back."""
        why = f"{type(error).__name__}: {error}"[:500]
        if isinstance(error, HandedOver):
            self._tracker.end(self._body, e.Outcome.STOPPED, after=[e.RunHandedOver(error.message)])
            return
        self._tracker.end(self._body, e.Outcome.FAILED, why=why)
        try:
            self.report = self._parts.rollbacks.of_run(self.id, on_conflict=self.options.on_conflict)
        except ConflictError as stopped:
            self._ledger.append([e.RunHandedOver(f"{why}; {stopped.message}")], self.id)
            raise RollbackIncomplete(stopped.message, stopped.hint, report=stopped.report) from error
        if self.report.verdict is Verdict.PARTIAL:
            self._ledger.append([e.RunHandedOver(f"{why}; {self.report}")], self.id)
            raise RollbackIncomplete(
                str(self.report), hint="the report names what remains", report=self.report
            ) from error
        self._ledger.append([e.RunEnded(e.Outcome.FAILED, why)], self.id)
        error.add_note(f"Takeback: {self.report}")

    # What happens inside

    def step(self, name: str, *, retries: int = 0) -> Step:
        """A step of the plan: `with run.step("edit"):`. Its `done` says that an earlier attempt completed it."""
        above = self._step()
        path = f"{above.path}/{name}" if above else name
        self._names[path] += 1
        if self._names[path] > 1:
            path = f"{path}#{self._names[path]}"
        return Step(self, path, above, retries)

    def call(self, function: Function, /, *args: Any, key: str = "", **kwargs: Any) -> Any:
        """Make a call, recorded before and after. A call that was completed gives its recorded result instead.

        A coroutine function gives an awaitable.
        """
        return self._caller(function, key).make(args, kwargs)

    @property
    def memory(self) -> Place:
        """Values that are kept with the run, and taken back with it."""
        return Place(Memory(self.id, lambda: self._ledger.refresh().memory[self.id], self._remember))

    def checkpoint(self, message: str = "") -> Checkpoint:
        """Take a checkpoint, to come back to with `rollback(to=...)`."""
        id = self._tracker.save(message, self.options.actor)
        return self._ledger.history.checkpoints[id]

    def rollback(self, to: Any, *, preview: bool = False, on_conflict: str = "") -> RollbackReport:
        """Take back what this run did since a checkpoint, or from a step or an action on; then go on."""
        if isinstance(to, Step) and not to.id:
            raise UsageError("this step has not begun in this attempt, so there is nothing to go back to")
        named = to if isinstance(to, str) else to.id
        choice = OnConflict(on_conflict) if on_conflict else self.options.on_conflict
        report = self._parts.rollbacks.of_run(
            self.id, ids.seq_of(named) - 1, preview=preview, on_conflict=choice
        )
        if report.verdict is Verdict.PARTIAL and not preview:
            raise RollbackIncomplete(str(report), hint="the report names what remains", report=report)
        return report

    def require(self, condition: object, message: str) -> None:
        """Stop the run at once where something does not hold that must."""
        if not condition:
            raise InvariantBroken(message)

    def hand_over(self, reason: str) -> None:
        """Leave the block and wait for a human. What was done stays; nothing is taken back."""
        raise HandedOver(
            reason, hint=f"`takeback handover take {self.id}`, then `return`; then run this again"
        )

    def _check_invariants(self) -> None:
        for invariant in self.options.invariants:
            self.require(
                invariant() is not False, f"{getattr(invariant, '__name__', invariant)} does not hold"
            )

    def _caller(self, function: Function, key: str) -> Caller:
        step = self._step()
        place = step.path if step else ""
        self._calls[place] += 1
        return Caller(
            function,
            run=self._ledger.history.runs[self.id],
            parts=self._parts,
            place=place,
            position=self._calls[place],
            key=key,
            parent=self._innermost(),
            step=step.id if step else "",
            looking=self.options.checkpoint == "action",
            retries=step.retries if step else 0,
            replayed=self._replayed,
            beat=self._beat,
        )

    def _step(self) -> Step | None:
        return next((step for step in reversed(_here.get()) if step.run is self), None)

    def _innermost(self) -> str:
        """The action of this run that is at work here: a call, the body of a step, or of the run."""
        if (here := actions.current.get()) and here[1] in self._ledger.history.runs[self.id].actions:
            return here[1]
        step = self._step()
        while step and not step.body:
            step = step.above
        return step.body if step else self._body

    def _remember(self, changes: tuple[Change, ...]) -> None:
        if self._replayed:
            raise UsageError(f"run {self.id} was committed; its memory does not change any more")
        self._ledger.append([e.ChangesSeen(self._innermost(), changes)], self.id)


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
        await asyncio.to_thread(self._begin)
        _here.set((*_here.get(), self))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _here.set(tuple(step for step in _here.get() if step is not self))
        await asyncio.to_thread(self._end, error)

    def _begin(self) -> None:
        run = self.run
        history = run._ledger.history
        for step in history.runs[run.id].steps.values():
            if step.name == self.path and step.life is Life.DONE and not history.is_undone(step.body):
                self.id, self.done = step.id, True
                return
        if run._replayed:
            raise UsageError(
                f"run {run.id} was committed without a step {self.path!r}; nothing was begun",
                hint="a changed plan is another run: give it another key",
            )
        above = self.above.id if self.above else ""
        began = run._as_action(self.path, run._innermost())
        looking = run.options.checkpoint != "run"
        opened = e.StepBegan(self.path, above)
        self.body = run._tracker.begin(began, stream=run.id, step=opened, looking=looking)
        self.id = next(s.id for s in history.runs[run.id].steps.values() if s.body == self.body)
        run._beat.add(self.body)

    def _end(self, error: BaseException | None) -> None:
        if not self.body:
            return
        outcome, why = e.Outcome.DONE, ""
        try:
            if error is None:
                self.run._check_invariants()
            else:
                outcome, why = e.Outcome.FAILED, f"{type(error).__name__}: {error}"[:500]
        except BaseException as broken:
            outcome, why = e.Outcome.FAILED, str(broken)
            raise
        finally:
            ended: Sequence[e.Event] = [e.StepEnded(self.id, outcome, why)]
            self.run._tracker.end(self.body, outcome, why=why, after=ended)
            self.run._beat.remove(self.body)


def _is_tool(history: Any, id: str) -> bool:
    return bool(history.actions[id].is_tool)
