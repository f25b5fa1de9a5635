"""A run: one attempt of an agent at a task, which is kept as a whole or taken back as a whole."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from takeback.core import events as e
from takeback.core.change import Change
from takeback.core.entities import Checkpoint
from takeback.core.entities import RecordedRun as Recorded
from takeback.core.lifecycle import Life
from takeback.core.memory import is_whole, keys_of, spliced
from takeback.core.redact import redact
from takeback.core.rollback import Verdict
from takeback.core.values import said
from takeback.engine.locks.leases import TTL_S
from takeback.engine.locks.run_lock import RunLock
from takeback.engine.outbox.defer import TIMEOUT_S, TRIES, defer, handler_of, refuse_no_number
from takeback.engine.rollback.afterwards import RollbackCheck
from takeback.engine.rollback.report import RollbackReport
from takeback.engine.runs.actions import Actions
from takeback.engine.runs.actions import ActionScope as Standing
from takeback.engine.runs.buffered import Buffered
from takeback.engine.runs.call import Caller
from takeback.engine.runs.checks import choice_of, position_of, seconds_of, text_of
from takeback.engine.runs.database import Database
from takeback.engine.runs.declare import Function, refuse_idle
from takeback.engine.runs.in_flight import AlsoAsync
from takeback.engine.runs.memory import DictHandle, RunMemory
from takeback.engine.runs.parts import Options, RunParts
from takeback.engine.runs.recorded_calls import is_taken_back, undone_since
from takeback.engine.runs.recorder import Recorder
from takeback.engine.runs.step import RunContext, Step, last_completed, releasing, take_back
from takeback.engine.tracking.recovery import end_taken_back, settle_calls
from takeback.errors import (
    ConflictError,
    HandedOver,
    InvariantBroken,
    LeaseLost,
    RollbackIncomplete,
    RunBusy,
    UsageError,
)

if TYPE_CHECKING:
    from takeback.engine.gate.gate import Approve
    from takeback.engine.shadow.review import Promoted, ShadowReview

POLL_S = 0.05


class Run(Actions, AlsoAsync["Run"]):
    """One attempt at a task. The end of its block commits it; an exception takes it all back and is re-raised."""

    buffered = Buffered
    """A block for a model's output, used whole and valid or not at all: `with run.buffered(Report) as out:`."""

    def __init__(self, parts: RunParts, options: Options) -> None:
        super().__init__(parts)
        self.report: RollbackReport | None = None
        """The report of the rollback, if the run failed."""
        self.review: ShadowReview | None = None
        """What a shadow would have done, once it has ended."""
        self.options = options
        self._context = RunContext(parts, options)
        self._tracker = parts.tracker
        self._ledger = parts.tracker.ledger
        self._replica: dict[str, Any] = {}
        self._names: Counter[str] = Counter()
        self._after_rollback: list[RollbackCheck] = []

    @property
    def id(self) -> str:
        """The id of the run; empty before its block."""
        return self._context.id

    @property
    def root(self) -> Path:
        """The folder to work in: that of the workspace, or in a shadow that of its view."""
        return self._parts.root

    def promote(self, *, approve: Approve | None = None) -> Promoted:
        """Do for real what a shadow showed. Raise UsageError for a run that is not a shadow."""
        del approve
        raise UsageError("this run was real, so there is nothing to promote", hint="tb.run(..., shadow=True)")

    # The block

    def __enter__(self) -> Run:
        self._context.at_work.open()
        deadline = time.monotonic() + self.options.wait_s
        while not self._begin():
            if time.monotonic() > deadline:
                raise RunBusy(
                    f"the run with the key {self.options.began.key!r} is open in another process; nothing was begun",
                    hint="wait for it, or use another key",
                )
            time.sleep(POLL_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._context.at_work.refuse_forked()
        elif self._context.at_work.is_forked():
            return  # the run belongs to the parent process and goes on there
        in_time = self._context.at_work.close(f"run {self.id} has ended", self.options.wait_s)
        self._context.beat.show(last=True)
        try:
            if self._context.replayed:
                return
            if not in_time:
                raise self._out_of_time() from error
            if error is None:
                try:
                    self._context.check_invariants()
                    self._settle_calls()
                    released = releasing(self._ledger.refresh(), self.id)
                    ended: list[e.Event] = [e.RunEnded(e.Outcome.DONE), *released]
                    self._tracker.end(self._context.body, e.Outcome.DONE, after=ended)
                except BaseException as late:
                    self._fail(late)
                    raise
                self._parts.file.end("done")
                if self.options.deliver:
                    self._parts.deliver(self.id)
            else:
                self._fail(error)
        finally:
            self._context.beat.stop()
            if self._context.body and self._ledger.history.actions[self._context.body].life is not Life.OPEN:
                self._context.beat.remove(self._context.body)
            if self._context.body and in_time and not self._context.replayed:
                self._give_up()

    def _give_up(self) -> None:
        """Treat what has no recorded end as if its process had died: the disk may be full. It can be settled then."""
        history = self._ledger.history
        # While the body is open, what is known of the others may be older than what happened: the store was away.
        is_open = history.actions[self._context.body].life is Life.OPEN
        left = history.runs[self.id].actions if is_open else [a.id for a in history.unended_in(self.id)]
        for id in left:
            self._tracker.life.give_up(id)

    def _begin(self) -> bool:
        """Begin, continue or replay the run. Return False while another process runs it."""
        with self._tracker.lock.held():
            self._parts.recover()
            earlier = self._earlier()
            if earlier and earlier.life is Life.INTERRUPTED:
                end_taken_back(self._tracker, earlier.actions)
            if earlier is None:
                self._start(1)
            elif earlier.life is Life.OPEN:
                return False
            elif earlier.life is Life.HANDED_OVER:
                raise HandedOver(
                    f"run {earlier.id} was handed over: {earlier.why}. Nothing was begun",
                    hint=f"a human returns it with `takeback handover return {earlier.id}`",
                )
            elif earlier.life in (Life.FAILED, Life.STOPPED) or is_taken_back(self._ledger.history, earlier):
                self._start(earlier.began.generation + 1)
            elif earlier.life is Life.INTERRUPTED:
                self._start_again(earlier)
            else:
                self._replay(earlier)
        return True

    def _earlier(self) -> Recorded | None:
        history = self._ledger.history
        found = history.runs_of_key(self.options.began.key) if self.options.began.key else ()
        earlier = history.runs[found[-1]] if found else None
        if earlier and earlier.began.thread:
            raise UsageError(
                f"the key {self.options.began.key!r} was already used for {earlier.id}, a thread; nothing was begun",
                hint="use another key for the run",
            )
        return earlier

    def _replay(self, earlier: Recorded) -> None:
        if gone := undone_since(self._ledger.history, earlier):
            raise ConflictError(
                f"run {earlier.id} was committed and then taken back only in part ({', '.join(gone[:3])}), "
                "so it can neither be replayed nor begun again",
                hint=f"take back the rest with `takeback undo {earlier.id}`, or use another key",
            )
        self._context.id, self._context.replayed = earlier.id, True
        self._replica = dict(self._ledger.history.memory_of(self.id))

    def _start(self, generation: int) -> None:
        began = msgspec.structs.replace(self.options.began, generation=generation)
        self._begin_body(generation, [began])
        self._context.id = self._ledger.history.actions[self._context.body].stream

    def _start_again(self, earlier: Recorded) -> None:
        self._context.id = earlier.id
        self._parts.judging.go_on(self._ledger.history, earlier.id)
        stopped = [
            e.StepEnded(step.id, e.Outcome.STOPPED, "interrupted")
            for step in earlier.steps.values()
            if step.life is Life.OPEN
        ]
        before: list[e.Event] = [e.RunResumed(self.options.began.actor), *stopped]
        self._begin_body(earlier.began.generation, before, stream=self.id)
        take_back(self._parts.rollbacks, self._ledger.history, self.id)

    def _begin_body(self, generation: int, before: Sequence[e.Event], stream: str = "") -> None:
        self._context.beat.start()
        try:
            with self._parts.file.begun(generation):
                self._context.body = self._tracker.begin(self._as_body(), stream=stream, before=before)
        except BaseException:
            self._context.beat.stop()
            raise
        self._context.beat.add(self._context.body)

    def _as_body(self) -> e.ActionBegan:
        """Return the action for what the run does outside its steps. It is open as long as the run."""
        body = self._context.as_action(self.options.began.name)
        return msgspec.structs.replace(body, outside=self.options.roots)

    def _fail(self, error: BaseException) -> None:
        """End a failed run: hand it over, or take everything back."""
        why = said(error)
        self._settle_calls()
        if isinstance(error, (HandedOver, LeaseLost)):
            # Without its lock it must not write, so it cannot take anything back either: a human decides.
            self._tracker.end(self._context.body, e.Outcome.STOPPED, after=[e.RunHandedOver(error.message)])
            self._parts.file.end("blocked", "it waits for a human")
            return
        self._tracker.end(self._context.body, e.Outcome.FAILED, why=why)
        pauses = self.options.on_failure == "pause" and not isinstance(error, (KeyboardInterrupt, SystemExit))
        after = last_completed(self._ledger.refresh(), self.id, self._context.body) if pauses else 0
        try:
            self.report = self._parts.rollbacks.of_run(
                self.id, after, on_conflict=self.options.on_conflict, checks=self._after_rollback
            )
        except ConflictError as stopped:
            self._ledger.append([e.RunHandedOver(f"{why}; {stopped.message}")], self.id)
            self._parts.file.end("blocked", "it was not taken back")
            raise RollbackIncomplete(stopped.message, stopped.hint, report=stopped.report) from error
        if self.report.verdict is Verdict.PARTIAL:
            self._ledger.append([e.RunHandedOver(f"{why}; {self.report}")], self.id)
            self._parts.file.end("blocked", "it was taken back in part")
            raise RollbackIncomplete(
                str(self.report), hint="the report names what remains", report=self.report
            ) from error
        if after:
            self._ledger.append([e.RunInterrupted(why)], self.id)
            self._parts.file.end("blocked", "it pauses after its completed steps")
            error.add_note(f"Takeback: {self.report} Its completed steps stay; {self.id} can be continued.")
            return
        self._ledger.append([e.RunEnded(e.Outcome.FAILED, why)], self.id)
        self._parts.file.end("failed")
        error.add_note(f"Takeback: {self.report}")

    def _settle_calls(self) -> None:
        """Settle calls that an interrupt left open, now that no call is in flight. They may have happened."""
        left = [action.id for action in self._ledger.refresh().unended_in(self.id)]
        settle_calls(self._tracker, self._parts.calls, left, "it was interrupted")

    def _out_of_time(self) -> RunBusy:
        why = f"calls of run {self.id} are still at work, so it was neither committed nor taken back"
        self._tracker.end(self._context.body, e.Outcome.STOPPED, why=why, after=[e.RunHandedOver(why)])
        self._parts.file.end("blocked", "calls of it were still at work")
        return RunBusy(why, hint=f"when they have ended: takeback undo {self.id}")

    # What happens inside

    def step(self, name: str, *, retries: int = 0, uses: Sequence[str | Step] = ()) -> Step:
        """Return a step: `with run.step("edit"):`. Its `done` is True if an earlier attempt completed it.

        `uses` names the steps whose results it uses: when one of them is taken back, so is this one.
        """
        name = text_of("the name of a step", name)
        above = self._context.step
        path = redact(f"{above.path}/{name}" if above else name)
        self._names[path] += 1
        if self._names[path] > 1:
            path = f"{path}#{self._names[path]}"
        return Step(self._context, path, above, retries, uses)

    def steps(self, names: Iterable[str], *, retries: int = 0) -> Iterator[Step]:
        """Yield the steps that no earlier attempt completed, each to be used as a block.

        `for step in run.steps(["edit", "test"]):` and in it `with step:`. Completed steps are not repeated.
        """
        for name in names:
            step = self.step(name, retries=retries)
            if not step.is_over():
                yield step

    def call(self, function: Function, /, *args: Any, key: str = "", effect: str = "", **kwargs: Any) -> Any:
        """Make a call, recorded before and after. A completed call returns its recorded result instead.

        `effect` declares the effect of a function that is not declared. A coroutine function returns an awaitable.
        """
        self._context.at_work.refuse_forked()
        key, effect = text_of("the key of a call", key), text_of("the effect of a call", effect)
        return Caller(function, self._context, key=key, effect=effect).make(args, kwargs)

    def database(self, place: str) -> Database:
        """Return a block for a database, committed with its step: `with run.database("app.db") as db:`."""
        return Database(self._context, text_of("the place of the database", place))

    def lock(self, name: str | os.PathLike[str], *, ttl_s: float = TTL_S, wait_s: float = 0.0) -> RunLock:
        """Return a lock on something: `with run.lock("src/billing", wait_s=60):`.

        `name` is a path from the top of the workspace, with all that is below it, or any other name. The lock lasts
        as long as the block, and at most `ttl_s` after this process has died. Without `wait_s` LeaseHeld is raised
        at once if another agent has it.
        """
        seconds_of("ttl_s", ttl_s)
        seconds_of("wait_s", wait_s)
        return RunLock(self._context, self._parts.leases.name(name), ttl_s, wait_s)

    def defer(
        self,
        handler: str | Function,
        /,
        *args: Any,
        key: str = "",
        order: str = "",
        release: str = "run",
        timeout_s: float = TIMEOUT_S,
        tries: int = TRIES,
        **kwargs: Any,
    ) -> str:
        """Defer something until the run has committed. Return the id of the intent.

        `handler` is "http", "webhook", "email" or "command", or a function that can be imported. The same key in a
        run is one intent. Intents with the same `order` are delivered one after the other. With `release="step"`
        the intent is released when its step commits, even if the run fails later.
        """
        self._context.at_work.refuse_closed()
        key, order = text_of("the key of an intent", key), text_of("the ordering key", order)
        seconds_of("timeout_s", timeout_s)
        refuse_no_number(tries)
        return defer(
            self._context,
            handler_of(handler, args, kwargs),
            key=key,
            order=order,
            release=release,
            timeout_s=timeout_s,
            tries=tries,
        )

    @property
    def memory(self) -> DictHandle:
        """Values that are stored with the run, and taken back with it."""
        if self._context.replayed:
            return DictHandle(RunMemory(self.id, lambda: self._replica, self._pretend))
        return DictHandle(
            RunMemory(self.id, lambda: self._ledger.refresh().memory_of(self.id), self._remember)
        )

    def checkpoint(self, message: str = "") -> Checkpoint:
        """Take a checkpoint, to come back to with `rollback(to=...)`."""
        self._context.at_work.refuse_forked()
        id = self._tracker.save(message, self.options.began.actor)
        return self._ledger.history.checkpoints[id]

    def rollback(self, to: Any, *, preview: bool = False, on_conflict: str = "") -> RollbackReport:
        """Take back what this run did since a checkpoint, or from a step or an action on; the run goes on."""
        self._context.at_work.refuse_closed()
        choice = choice_of(on_conflict) if on_conflict else self.options.on_conflict
        position = position_of(self._ledger.refresh(), self.id, to, self._parts.rollbacks.moments)
        with nullcontext() if preview else self._context.at_work.alone():
            report = self._parts.rollbacks.of_run(
                self.id, position, preview=preview, on_conflict=choice, checks=self._after_rollback
            )
        if report.verdict is Verdict.PARTIAL and not preview:
            raise RollbackIncomplete(str(report), hint="the report names what remains", report=report)
        return report

    def after_rollback(self, check: RollbackCheck) -> None:
        """Ask this check whenever this process takes back something of the run. It gets the report.

        It looks and changes nothing. If it returns False or raises, the rollback is incomplete.
        """
        refuse_idle("of the run", check=check)
        self._after_rollback.append(check)

    def require(self, condition: object, message: str) -> None:
        """Raise InvariantBroken, which ends the run, if the condition does not hold."""
        if not condition:
            raise InvariantBroken(message)

    def hand_over(self, reason: str) -> None:
        """Leave the block and wait for a human. What was done stays; nothing is taken back."""
        raise HandedOver(
            reason, hint=f"`takeback handover take {self.id}`, then `return`; then run this again"
        )

    def _recorder(self) -> Recorder:
        return Recorder(self._ledger.refresh().runs[self.id], self._parts, self._context.beat)

    def _place(self) -> Standing:
        self._context.at_work.refuse_closed()
        step = self._context.step
        return Standing(step.id if step else "", self._context.action, replayed=self._context.replayed)

    def _remember(self, changes: tuple[Change, ...]) -> None:
        self._context.at_work.refuse_closed()
        self._ledger.append([e.ChangesSeen(self._context.action, changes)], self.id)
        if (step := self._context.step) and step.done:
            step.warn_again(f"{'/'.join(keys_of(change.target.name))} in memory" for change in changes)

    def _pretend(self, changes: tuple[Change, ...]) -> None:
        """Change the copy of the memory that the replay of a committed run works on; nothing is recorded."""
        for change in changes:
            current = self._replica.pop(change.target.name, None)
            if change.after:
                whole = is_whole(change.after)
                made = change.after.data if whole else spliced(current, change.after.data)
                self._replica[change.target.name] = made
