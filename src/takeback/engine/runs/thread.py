"""Threads: runs without a body, for frameworks that own the loop.

A conversation goes on over days and in many processes. Only its calls are actions; what changes between them is the
human's. Leaving its block records nothing: it is committed or taken back when its program says so, and goes on
afterwards.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Unpack

from takeback.core import events as e
from takeback.core import ids, keys
from takeback.core.change import Change
from takeback.core.entities import Checkpoint, RecordedAction, RecordedRun, RecordedStep
from takeback.core.history import History
from takeback.core.lifecycle import Life
from takeback.core.memory import keys_of
from takeback.core.redact import redact
from takeback.core.rollback import Verdict
from takeback.core.rules import Ruling
from takeback.core.values import said
from takeback.engine.gate.wanted import Wanted
from takeback.engine.locks.leases import TTL_S
from takeback.engine.locks.run_lock import RunLock
from takeback.engine.outbox.defer import TIMEOUT_S, TRIES, defer, handler_of, refuse_no_number
from takeback.engine.rollback.report import RollbackReport
from takeback.engine.runs import declare
from takeback.engine.runs.actions import AGAIN, Action, ActionScope, Ask, CallOptions
from takeback.engine.runs.answers import Answers
from takeback.engine.runs.checks import choice_of, seconds_of, text_of
from takeback.engine.runs.declare import Function
from takeback.engine.runs.in_flight import AlsoAsync, uncancelled
from takeback.engine.runs.memory import DictHandle, RunMemory
from takeback.engine.runs.parts import Options, RunParts
from takeback.engine.runs.recorded_calls import is_gone, left_standing, outcome_of
from takeback.engine.runs.recorder import OpenHere, Recorder
from takeback.engine.runs.step import Occurrences, RunContext, releasing
from takeback.engine.runs.values import Codec
from takeback.engine.tracking.signs_of_life import Heartbeat
from takeback.errors import HandedOver, RollbackIncomplete, RunBusy, UsageError
from takeback.resources.calls.resource import Call
from takeback.system import processes

_turns: ContextVar[tuple[Turn, ...]] = ContextVar("takeback-turns", default=())
"""The turns that this code is in, of any threads."""

REMAINS = (
    "everything else was taken back, and the report names what remains. If an adapter keeps the conversation, it is "
    "unchanged: go back once more to shorten it all the same"
)

FAILED = (
    "everything else was taken back, and the report names what failed: it is tried again when you go back once more. "
    "If an adapter keeps the conversation, it is unchanged"
)


class Turn:
    """One turn of a thread, as a block: what happens between a message to the agent and its answer."""

    def __init__(self, thread: Thread, ref: str, name: str) -> None:
        self.thread = thread
        self.ref = ref
        self.name = name
        self.id = ""
        """The id of its step; empty before its block."""
        self.done = False
        """True if it was completed before, so that its block only replays it."""
        self.nth = Occurrences()

    def __repr__(self) -> str:
        return f"<Turn {self.id} {self.ref!r}>"

    @contextmanager
    def here(self) -> Iterator[Turn]:
        """Enter a block that belongs to the turn, for code in threads that do not inherit the context."""
        before = _turns.get()
        _turns.set((*before, self))
        try:
            yield self
        finally:
            _turns.set(before)

    def __enter__(self) -> Turn:
        self.thread._begin_turn(self)
        _turns.set((*_turns.get(), self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _turns.set(tuple(turn for turn in _turns.get() if turn is not self))
        self.thread._end_turn(self, error)

    async def __aenter__(self) -> Turn:
        await uncancelled(lambda: self.thread._begin_turn(self))
        _turns.set((*_turns.get(), self))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _turns.set(tuple(turn for turn in _turns.get() if turn is not self))
        await uncancelled(lambda: self.thread._end_turn(self, error))


class Thread(Answers, AlsoAsync["Thread"]):
    """A conversation of an agent: turns and calls in any number of processes, with a memory.

    It is opened when it is first used. Its block only pauses it, however the block is left: `commit` and `rollback`
    are explicit, and it goes on after both.
    """

    def __init__(self, parts: RunParts, options: Options, codec: Codec, *, is_host: bool) -> None:
        super().__init__(parts)
        self._is_host = is_host
        self._options = options
        self._codec = codec
        self._context = RunContext(parts, options)
        self._tracker = parts.tracker
        self._ledger = parts.tracker.ledger
        self._open_here = OpenHere()
        self._nth = Occurrences()
        self._opening = threading.Lock()

    def __repr__(self) -> str:
        return f"<Thread {self.key!r} {self._context.id}>"

    @property
    def key(self) -> str:
        """The key by which any process finds it."""
        return self._options.began.key

    @property
    def id(self) -> str:
        """The id of its run."""
        self._open()
        return self._context.id

    @property
    def is_idle(self) -> bool:
        """True if another object for the same thread would do: this one has begun no open call and counts none."""
        return not self._open_here.begun and not self._nth.has_counted

    # The block

    def __enter__(self) -> Thread:
        self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.pause()

    async def __aenter__(self) -> Thread:
        return await uncancelled(self.__enter__)

    def pause(self) -> None:
        """Leave the thread for now. What was done stays, and nothing is committed or taken back.

        A call that was begun here outside a block and has not ended is cut short, as its check finds it.
        """
        if not self._context.id or self._context.at_work.is_forked():
            return
        recorder = self._recorder()
        for id in self._open_here.left():
            action = recorder.history().actions[id]
            if action.life is Life.OPEN:
                seen, why = recorder.calls.look_at(action), "its thread was left before it ended"
                recorder.failed(id, None, why, seen, outcome=e.Outcome.STOPPED)
        if not self._open_here.entered:
            self._context.beat.stop()
            self._context.beat = Heartbeat(self._tracker.life)

    async def apause(self) -> None:
        """Do what `pause` does, without blocking the event loop."""
        await uncancelled(self.pause)

    def _open(self) -> None:
        self._context.at_work.refuse_forked()
        if self._context.id:
            return
        with self._tracker.lock.held(), self._opening:
            self._parts.recover()
            history = self._ledger.refresh()
            known = history.runs_of_key(self.key)
            earlier = history.runs[known[-1]] if known else None
            if earlier and not earlier.began.thread:
                raise UsageError(
                    f"the key {self.key!r} was already used for {earlier.id}, which is not a thread; "
                    "nothing was begun",
                    hint="use another key for the thread",
                )
            id = earlier.id if earlier else self._ledger.append([self._options.began], "")[0].id
            self._parts.judging.go_on(history, id)
            self._context.id = id

    def _resumed(self, run: RecordedRun) -> list[e.Event]:
        """Return the events with which the thread goes on. It does so after its end, too."""
        if run.life is Life.HANDED_OVER:
            raise HandedOver(
                f"thread {run.id} was handed over: {run.why}. Nothing was begun",
                hint=f"a human returns it with `takeback handover return {run.id}`",
            )
        return [] if run.life is Life.OPEN else [e.RunResumed(self._options.began.actor)]

    # Turns

    def turn(self, ref: str, *, name: str = "") -> Turn:
        """Return the turn with this reference, as a block: begun now, or gone on with if it is known.

        `ref` identifies the turn wherever it is resumed, such as the id of the message that it answers. Calls without
        an id are counted from each entry of its block. An exception marks the turn as failed; a cancelled task, a
        closed generator or an interrupt leaves it open.
        """
        ref = text_of("the reference of a turn", ref)
        if not ref:
            raise UsageError("a turn needs a reference, so that it is found again; nothing was begun")
        return Turn(self, ref, text_of("the name of a turn", name) or ref)

    def _begin_turn(self, turn: Turn) -> None:
        self._open()
        with self._tracker.lock.held():
            history = self._ledger.refresh()
            run = history.runs[self.id]
            known = self._step(history, turn.ref)
            turn.done = known is not None and known.life is Life.DONE
            if known is None:
                # Not synced by itself: it says nothing about the world, and the next action is synced.
                began = e.StepBegan(redact(turn.name), ref=turn.ref)
                turn.id = self._ledger.append([*self._resumed(run), began], run.id, durable=False)[-1].id
            else:
                turn.id = known.id

    def _end_turn(self, turn: Turn, error: BaseException | None) -> None:
        if self._context.at_work.is_forked():
            return
        with self._tracker.lock.held():
            step = self._ledger.refresh().runs[self.id].steps[turn.id]
            if step.life is not Life.OPEN or (error is not None and not isinstance(error, Exception)):
                return
            outcome, why = (e.Outcome.FAILED, said(error)) if error else (e.Outcome.DONE, "")
            self._ledger.append([e.StepEnded(turn.id, outcome, why)], self.id, durable=False)

    def _step(self, history: History, ref: str) -> RecordedStep | None:
        """Return the last turn with this reference that was not taken back."""
        steps = reversed(history.runs[self.id].steps.values())
        found = next((step for step in steps if step.ref == ref), None)
        if found is None:
            return None
        actions = history.actions_in(found.id)
        return None if actions and all(map(history.is_undone, actions)) else found

    @property
    def current_turn(self) -> Turn | None:
        """The turn of this thread that this code is in; None outside of turns."""
        return next((turn for turn in reversed(_turns.get()) if turn.thread is self), None)

    # Calls

    def actions(self, turn: Turn | None = None) -> list[Action]:
        """Return the calls of the thread, or of one turn, in order, without those that were taken back."""
        recorder = self._recorder()
        history = recorder.history()
        wanted = history.actions_in(turn.id) if turn else recorder.run.actions
        known = (history.actions[id] for id in wanted)
        return [Action(recorder, action) for action in known if _is_call(history, action)]

    def undelivered(self, name: str = "", args: Mapping[str, Any] | None = None) -> list[Action]:
        """Return the calls since the last commit that have ended and were not reported as delivered, in order.

        A crash leaves such calls: they were made, and the model never saw their results. With `name` and `args`,
        return only calls with the same meaning.
        """
        recorder = self._recorder()
        history, run = recorder.history(), recorder.run
        intent = keys.intent_key(name, self._plain(dict(args), name)) if args is not None else ""
        found = []
        for id in reversed(run.actions):
            action = history.actions[id]
            if action.seq <= run.committed_at:
                break
            if action.delivered or not _is_call(history, action) or name not in ("", action.name):
                continue
            if outcome_of(history, action) in ("done", "failed") and intent in ("", action.as_tool.intent):
                found.append(Action(recorder, action))
        return found[::-1]

    def delivered(self, *actions: Action) -> None:
        """Record that the results of these calls, by default of all that ended, are stored by their caller."""
        told = [action.id for action in actions or self.undelivered() if not action.is_delivered]
        if told:
            self._recorder().deliver(told)

    async def aactions(self, turn: Turn | None = None) -> list[Action]:
        """Do what `actions` does, without blocking the event loop."""
        return await uncancelled(lambda: self.actions(turn))

    async def aundelivered(self, name: str = "", args: Mapping[str, Any] | None = None) -> list[Action]:
        """Do what `undelivered` does, without blocking the event loop."""
        return await uncancelled(lambda: self.undelivered(name, args))

    async def adelivered(self, *actions: Action) -> None:
        """Do what `delivered` does, without blocking the event loop."""
        await uncancelled(lambda: self.delivered(*actions))

    def request(
        self, name: str, args: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]
    ) -> Ask | None:
        """Ask for approval of a call before it is begun. Return the request, or None if nobody has to answer one.

        For frameworks that ask humans before they call a tool. The options are those of `begin`. The call itself
        uses the answer, also under another id. A call that a rule forbids needs no answer: `begin` refuses it.
        """
        wanted, gate = self._wanted(name, args, **options), self._parts.gate
        with self._tracker.lock.held():
            recorder = self._recorder()
            wanted = recorder.foreseen(wanted)
            known = self._known(recorder, wanted)
            if known and not (wanted.again and outcome_of(recorder.history(), known) in AGAIN):
                return None
            ruling = gate.rule(wanted, wanted.key)
            if ruling.do is not Ruling.ASK or recorder.locked(wanted).do is Ruling.DENY:
                return None
            approval = gate.ask(self.id, wanted, ruling.why, wanted.key)
        gate.consult(approval)
        is_open = self._ledger.refresh().approvals[approval.id].life is Life.OPEN
        return Ask(self, wanted, approval, ruling.how) if is_open else None

    async def arequest(
        self, name: str, args: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]
    ) -> Ask | None:
        """Do what `request` does, without blocking the event loop."""
        return await uncancelled(lambda: self.request(name, args, **options))

    def _recorder(self) -> Recorder:
        run = self._ledger.refresh().runs[self.id]
        return Recorder(run, self._parts, self._context.beat, self._codec, self._open_here)

    def _place(self) -> ActionScope:
        self._open()
        turn, began = self.current_turn, self._options.began
        parent = self._context.action or began.parent
        return ActionScope(
            turn.id if turn else "", parent, began.actor, began.session, processes.this_process()
        )

    def _plain(self, value: Any, place: str) -> Any:
        return self._codec.plain(value, place)

    def _unnamed(self, name: str, intended: Any, /) -> str:
        """Return the key of something without one, by what it is and how often it occurred in its turn."""
        turn = self.current_turn
        place, nth = (turn.ref, turn.nth) if turn else ("", self._nth)
        return keys.action_key(place, nth(keys.alike(place, name, intended)), name, intended)

    def _known(self, recorder: Recorder, wanted: Wanted) -> RecordedAction | None:
        known = recorder.recorded(wanted)
        if known and known.life is Life.OPEN and known.process != processes.this_process():
            number = known.process.pid if known.process else 0
            raise RunBusy(
                f"{known.id} ({known.name}) is being made by process {number}; nothing was begun",
                hint="wait until it has ended: then the same call returns its result",
            )
        return known

    def _passed(self, recorder: Recorder) -> list[e.Event]:
        return self._resumed(recorder.run)

    # Memory, intents and locks

    @property
    def memory(self) -> DictHandle:
        """Values that are stored with the thread, and taken back with it."""
        read = self._ledger.refresh
        return DictHandle(RunMemory(self.id, lambda: read().memory_of(self.id), self._remember))

    def _remember(self, changes: tuple[Change, ...]) -> None:
        if inside := self._context.action:
            self._ledger.append([e.ChangesSeen(inside, changes)], self.id)
            return
        named = dict.fromkeys("/".join(keys_of(change.target.name)[:2]) for change in changes)
        id = self._deed(f"remember {', '.join(named)}"[:80])
        self._ledger.append([e.ActionEnded(id, e.Outcome.DONE, changes)], self.id)

    def _deed(self, name: str) -> str:
        """Begin an action for something that the thread itself does outside its calls, and that no look finds."""
        place = self._place()
        began = e.ActionBegan(
            redact(name),
            e.Effect.NONE,
            actor=place.actor,
            session=place.session,
            step=place.step,
            parent=place.parent,
            process=place.process,
        )
        before = self._resumed(self._ledger.refresh().runs[self.id])
        return self._tracker.begin(began, stream=self.id, before=before, looking=False)

    def defer(
        self,
        handler: str | Function,
        /,
        *args: Any,
        key: str = "",
        order: str = "",
        timeout_s: float = TIMEOUT_S,
        tries: int = TRIES,
        **kwargs: Any,
    ) -> str:
        """Defer something until the thread is committed. Return the id of the intent. As `run.defer`."""
        key, order = text_of("the key of an intent", key), text_of("the ordering key", order)
        seconds_of("timeout_s", timeout_s)
        refuse_no_number(tries)
        found = handler_of(handler, args, kwargs)
        self._open()
        key = key or self._unnamed(f"defer {found.name}", found.plain)

        def deferred() -> str:
            return defer(
                self._context, found, key=key, order=order, release="run", timeout_s=timeout_s, tries=tries
            )

        if self._context.action:
            return deferred()
        id = self._deed(f"defer {found.name}")
        around = declare.current.set((Call(found.name, [], {}, ""), id))
        try:
            return deferred()
        finally:
            declare.current.reset(around)
            self._ledger.append([e.ActionEnded(id, e.Outcome.DONE)], self.id)

    async def aremember(self, key: str, value: Any) -> None:
        """Set `memory[key]`, without blocking the event loop."""
        await uncancelled(lambda: self.memory.__setitem__(key, value))

    async def adefer(self, handler: str | Function, /, *args: Any, **options: Any) -> str:
        """Do what `defer` does, without blocking the event loop."""
        return await uncancelled(lambda: self.defer(handler, *args, **options))

    def lock(self, name: str | os.PathLike[str], *, ttl_s: float = TTL_S, wait_s: float = 0.0) -> RunLock:
        """Return a lock on something, as a block. As `run.lock`."""
        seconds_of("ttl_s", ttl_s)
        seconds_of("wait_s", wait_s)
        self._open()
        return RunLock(self._context, self._parts.leases.name(name), ttl_s, wait_s)

    # Going back, and keeping

    def checkpoint(self, message: str = "") -> Checkpoint:
        """Take a checkpoint, to come back to with `rollback(to=...)`."""
        self._open()
        id = self._tracker.save(message, self._options.began.actor)
        return self._ledger.history.checkpoints[id]

    def rollback(self, to: Any = None, *, preview: bool = False, on_conflict: str = "") -> RollbackReport:
        """Take back what the thread did since its last commit; or from a turn or call on, or since a checkpoint.

        `to` is a turn, an action or a checkpoint, the id of one, or the reference of a turn. A call that was taken
        back and is begun again is a new one.
        """
        choice = choice_of(on_conflict) if on_conflict else self._options.on_conflict
        with self._tracker.lock.held():
            self._open()
            self._parts.recover()
            history = self._ledger.refresh()
            position = self._position(history, to)
            self._refuse_at_work(history, self._context.action)
            rollbacks = self._parts.rollbacks
            report = rollbacks.of_run(self.id, position, preview=preview, on_conflict=choice)
            if preview:
                return report
            if report.verdict is Verdict.PARTIAL:
                failed = any(item.did == "failed" for item in report.items)
                raise RollbackIncomplete(str(report), hint=FAILED if failed else REMAINS, report=report)
            run = self._ledger.history.runs[self.id]
            ended = _ends_of_turns(run, e.Outcome.STOPPED, "it was taken back", position)
            if to is None and run.life is Life.OPEN:
                ended.append(e.RunEnded(e.Outcome.STOPPED, "it was taken back"))
            if ended:
                self._ledger.append(ended, self.id)
        return report

    def go_back(self, first: Turn | Action | str | None) -> RollbackReport:
        """Take back what was done from a turn or call on, for an adapter that shortens its conversation afterwards.

        `first` is what `rollback` takes. Pass None if no call stands after the place in the conversation. Then the
        report names what an earlier rollback could not take back there, and nothing is raised for that: going back
        once more passes over it.
        """
        if first is not None:
            return self.rollback(to=first)
        try:
            return self.rollback(to=self._first_left() or self.checkpoint("before going back"))
        except RollbackIncomplete as error:
            report: RollbackReport = error.report
            return report

    def _first_left(self) -> str:
        """Return the first call that a rollback had to leave, after the last one that stands; empty without any."""
        history, left = self._recorder().history(), ""
        for id in reversed(history.runs[self.id].actions):
            if _is_call(history, history.actions[id]):
                break
            left = id if left_standing(history, [id]) else left
        return left

    def commit(self) -> None:
        """Keep what was done so far: release what was deferred, and count every result as delivered."""
        with self._tracker.lock.held():
            self._open()
            self._parts.recover()
            history = self._ledger.refresh()
            self._refuse_at_work(history)
            self._context.check_invariants()
            run = history.runs[self.id]
            if run.life is Life.OPEN:
                ended = _ends_of_turns(run, e.Outcome.DONE)
                self._ledger.append(
                    [*ended, e.RunEnded(e.Outcome.DONE), *releasing(history, self.id)], self.id
                )
        if self._options.deliver:
            self._parts.deliver(self.id)

    async def acheckpoint(self, message: str = "") -> Checkpoint:
        """Do what `checkpoint` does, without blocking the event loop."""
        return await uncancelled(lambda: self.checkpoint(message))

    async def arollback(
        self, to: Any = None, *, preview: bool = False, on_conflict: str = ""
    ) -> RollbackReport:
        """Do what `rollback` does, without blocking the event loop."""
        return await uncancelled(lambda: self.rollback(to, preview=preview, on_conflict=on_conflict))

    async def ago_back(self, first: Turn | Action | str | None) -> RollbackReport:
        """Do what `go_back` does, without blocking the event loop."""
        return await uncancelled(lambda: self.go_back(first))

    async def acommit(self) -> None:
        """Do what `commit` does, without blocking the event loop."""
        await uncancelled(self.commit)

    def _position(self, history: History, to: Any) -> int:
        """Return the position in the journal just before what is named. Nothing of a thread is between its calls."""
        run = history.runs[self.id]
        if to is None:
            return run.committed_at
        named = to if isinstance(to, str) else getattr(to, "id", None)
        if isinstance(named, str) and named:
            if named in run.steps or named in history.checkpoints:
                return ids.seq_of(named) - 1
            if (known := history.actions.get(named) if ids.is_id(named) else None) and known.stream == run.id:
                return known.seq - 1
            if step := next((one for one in reversed(run.steps.values()) if one.ref == named), None):
                return ids.seq_of(step.id) - 1
        raise UsageError(
            f"thread {run.id} has no turn or call {named or to!r}, and there is no such checkpoint; "
            "nothing was taken back",
            hint="name a turn by its reference, an action or a checkpoint by its id",
        )

    def _refuse_at_work(self, history: History, inside: str = "") -> None:
        """Raise RunBusy while calls of the thread are being made, here or in another process."""
        for action in history.unended_in(self.id):
            if action.id != inside and action.life is Life.OPEN:
                raise RunBusy(
                    f"{action.id} ({action.name}) is at work; the thread was neither committed nor taken back",
                    hint="end it, and try again",
                )


def _is_call(history: History, action: RecordedAction) -> bool:
    """Return whether it is a call that stands: not something that the thread itself did, and not taken back."""
    began = action.as_tool
    return bool(began.key) and began.tool != e.ANSWER and not is_gone(history, action)


def _ends_of_turns(run: RecordedRun, outcome: e.Outcome, why: str = "", after: int = 0) -> list[e.Event]:
    open_now = (step for step in run.steps.values() if step.life is Life.OPEN)
    return [e.StepEnded(step.id, outcome, why) for step in open_now if ids.seq_of(step.id) > after]
