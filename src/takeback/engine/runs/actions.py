"""The beginning and the end of an action, for callers that do not run the tool: hooks, servers and frameworks.

`begin` is called before a tool runs and `end` after it, by this process or another one. Both are idempotent.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, TypedDict, Unpack

import msgspec

from takeback.core import events as e
from takeback.core import keys
from takeback.core.entities import Approval, RecordedRun
from takeback.core.entities import RecordedAction as Recorded
from takeback.core.lifecycle import Life
from takeback.core.policy import Decision
from takeback.core.rules import Ruling
from takeback.core.values import plain, said, view
from takeback.engine.gate import gate as gates
from takeback.engine.gate.gate import verdict
from takeback.engine.gate.wanted import Wanted
from takeback.engine.runs import declare
from takeback.engine.runs.checks import seconds_of, text_of
from takeback.engine.runs.declare import AnyHandler, Declared
from takeback.engine.runs.in_flight import AlsoAsync, pause, uncancelled, wholly
from takeback.engine.runs.parts import RunParts
from takeback.engine.runs.recorded_calls import HANDLERS, CallEvidence, CallOutcome, outcome_of
from takeback.engine.runs.recorder import Recorder
from takeback.engine.sandbox.fence import FENCED, Containment
from takeback.errors import RefusedError, RunBusy, UsageError
from takeback.resources.calls.resource import Call

_at_work: set[tuple[str, str, int]] = set()
"""The actions whose tools are running in this process: the root of their workspace, their id and their time."""
_entering = threading.Lock()

AGAIN = ("failed", "cut-short")
"""Outcomes after which an action can be begun again."""
ASKED = "asked"
"""In the ref of an action: the caller that began it asked its human, who may have refused."""


class ActionScope(msgspec.Struct, frozen=True):
    """The place of an action in its run, and its owner."""

    step: str = ""
    parent: str = ""
    actor: str = ""
    session: str = ""
    process: e.Process | None = None
    replayed: bool = False


class Action(AlsoAsync["Action"]):
    """An action that was begun. Any process that knows its run and its call_id can end it.

    As a block, `with action:` or `async with action:`, it makes `takeback.current_call()` known, and ends with the
    block: with the result given to `keep`, or with the error. A cancelled block is cut short.
    """

    def __init__(
        self,
        recorder: Recorder,
        recorded: Recorded,
        asked: str = "",
        warning: str = "",
        how: str = "",
        call: Call | None = None,
    ) -> None:
        """`call` is what is made, if it was begun just now."""
        self._recorder = recorder
        self._recorded = recorded
        self._begun = call
        self._kept: Any = None
        self._is_kept = False
        began = recorded.began
        assert isinstance(began, e.ActionBegan)
        self.id = recorded.id
        self.name = recorded.name
        self.run = recorded.stream
        self.call_id = began.key
        self.key = began.call_key
        """The idempotency key for the other system."""
        self.ref = began.ref
        self.asked = asked
        """Why a human has to be asked, if the caller asks the human itself."""
        self.how = how
        """How the owner of the rules can avoid the request in future. For a human, never for a model."""
        self.warning = warning
        """What its human should know although it was begun: it writes what another has locked."""
        self.is_fenced = FENCED in began.ref.split()
        """True if its command has to run in the sandbox."""
        self.turn = began.step
        """The id of its turn or step."""

    def __repr__(self) -> str:
        return f"<Action {self.id} {self.name[:60]!r} {self._recorded.life}>"

    @property
    def outcome(self) -> CallOutcome:
        """What became of it: `open`, `done`, `failed`, `cut-short` or `in-doubt`. Run a tool only if it is open."""
        history = self._recorder.history()
        return outcome_of(history, history.actions[self.id])

    @property
    def known_outcome(self) -> CallOutcome:
        """Its outcome as this process knows it, without asking the store: that at its `begin`, or a later one."""
        history = self._recorder.known()
        return outcome_of(history, history.actions[self.id])

    @property
    def error(self) -> str:
        """Why it failed, was cut short, or is in doubt; empty otherwise."""
        return self._now().why if self.outcome not in ("open", "done") else ""

    @property
    def found(self) -> bool:
        """True if its result is what its check found, or a human told: the tool's own value."""
        return self.outcome == "done" and self._now().life not in (Life.DONE, Life.BACKGROUND)

    @property
    def arguments(self) -> dict[str, Any]:
        """Its arguments, in full."""
        given: dict[str, Any] = self._recorder.calls.known(self._now()).call.kwargs
        return given

    @property
    def is_delivered(self) -> bool:
        """True if its result has reached its caller for good."""
        return self._now().delivered

    @property
    def ended(self) -> bool:
        """True if it has ended, here or in another process: then its tool must not run again."""
        return self._now().life not in (Life.OPEN, Life.BACKGROUND)

    @property
    def lives_on(self) -> bool:
        """True if its tool has answered and what it started is still at work."""
        return self._now().life is Life.BACKGROUND

    @property
    def result(self) -> Any:
        """Its result, if it has ended."""
        return self._recorder.result(self._now())

    def end(
        self, result: Any = None, *, error: BaseException | str | None = None, presumed: bool = False
    ) -> Action:
        """Record its result or how it failed, and what changed meanwhile. A second end changes nothing.

        An error may be `presumed`: the end was not reported and its time is unknown. A human may have worked since
        then, so it is in doubt who made the changes.
        """
        return self._end(result, error, presumed=presumed)

    def _end(
        self,
        result: Any,
        error: BaseException | str | None,
        *,
        presumed: bool = False,
        is_plain: bool = False,
    ) -> Action:
        recorder = self._recorder
        # A result is recorded only while the action is open, so the store is not asked twice.
        action = recorder.known().actions[self.id] if error is None else self._now()
        if action.life not in (Life.OPEN, Life.BACKGROUND):
            return self
        if error is None:
            recorder.end(self.id, self.name, result, is_plain=is_plain)
        else:
            seen = recorder.calls.look_at(action) if action.is_tool else CallEvidence(False)
            why = error if isinstance(error, str) else said(error)
            # A cancelled task, a closed generator or an interrupt says nothing about the tool.
            cut = isinstance(error, BaseException) and not isinstance(error, Exception)
            outcome = e.Outcome.STOPPED if cut else e.Outcome.FAILED
            recorder.failed(self.id, None, why, seen, unsure=presumed, outcome=outcome)
        return self

    async def aend(
        self, result: Any = None, *, error: BaseException | str | None = None, presumed: bool = False
    ) -> Action:
        """Do what `end` does, in a thread and to its end even if this task is cancelled."""
        return await uncancelled(lambda: self.end(result, error=error, presumed=presumed))

    def keep(self, result: Any) -> None:
        """Keep the result to record at the end of its block. Raise UsageError at once if it cannot be stored."""
        self._kept, self._is_kept = self._recorder.codec.plain(result, f"what {self.name} returned"), True

    def delivered(self) -> None:
        """Record that its result has reached its caller and is stored there."""
        if not self.is_delivered:
            self._recorder.deliver([self.id])

    async def adelivered(self) -> None:
        """Do what `delivered` does, without blocking the event loop."""
        await uncancelled(self.delivered)

    def __enter__(self) -> Action:
        self._enter(self._call())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        self._close(error)

    async def __aenter__(self) -> Action:
        if self._begun is not None and self.known_outcome == "open":
            self._take_up()
            self._enter((self._begun, self.id))  # begun a moment ago: there is nothing to ask
            return self
        here, cancelled = await wholly(self._call)
        if cancelled:
            await wholly(lambda: self._close(cancelled))
            raise cancelled
        self._enter(here)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        await uncancelled(lambda: self._close(error))

    def _call(self) -> tuple[Call, str]:
        recorded = self._now()
        if recorded.life is not Life.OPEN:
            raise UsageError(
                f"{self.id} ({self.name}) is {self.outcome}, so its tool must not run; nothing was done",
                hint="run a tool only if the outcome of its action is open; begin(again=True) begins one again",
            )
        call = self._begun or self._recorder.calls.known(recorded).call
        self._take_up()
        return call, self.id

    def _take_up(self) -> None:
        """Note that its tool runs in this process. Raise RunBusy if it does so already."""
        with _entering:
            self.refuse_at_work()
            _at_work.add(self._place_in_process())

    def refuse_at_work(self) -> None:
        """Raise RunBusy if its tool is running in this process, in whichever thread or task."""
        if self._place_in_process() in _at_work:
            raise RunBusy(
                f"{self.id} ({self.name}) is being made in this process; nothing was begun",
                hint="wait until it has ended: then the same call returns its result",
            )

    def _place_in_process(self) -> tuple[str, str, int]:
        return self._recorder.root, self.id, self._recorded.began_us

    def _enter(self, here: tuple[Call, str]) -> None:
        self._recorder.open_here.entered.add(self.id)
        self._here, self._around = here, declare.current.get()
        declare.current.set(here)

    def _leave(self) -> None:
        # Not by a token: the end of an async generator may run in another context than its beginning.
        if declare.current.get() is self._here:
            declare.current.set(self._around)

    def _close(self, error: BaseException | None) -> None:
        self._recorder.open_here.entered.discard(self.id)
        try:
            self._end(self._kept, error, is_plain=self._is_kept)
        finally:
            _at_work.discard(self._place_in_process())

    def live_on(self) -> Action:
        """Record that its tool has answered and what it started is still at work: `end()` comes later."""
        self._recorder.live_on(self.id)
        return self

    def drop(self, why: str) -> Action:
        """Record that it was not allowed to happen. It is in doubt who made the changes meanwhile."""
        if not self.ended:
            self._recorder.failed(self.id, None, why, CallEvidence(False), unsure=True)
        return self

    def _now(self) -> Recorded:
        return self._recorder.history().actions[self.id]


class CallOptions(TypedDict, total=False):
    """What can be said of a call besides its name and its arguments."""

    call_id: str
    scope: str
    again: bool
    declared: Declared | None
    effect: str
    undo: AnyHandler | None
    check: AnyHandler | None
    parent: str
    ref: str
    volatile: Sequence[str]
    paths: Sequence[str]


class BeginOptions(CallOptions, total=False):
    """The options of `begin`."""

    asking: bool


class Denied(msgspec.Struct, frozen=True):
    """The refusal of an action, which was not begun."""

    name: str
    rule: str
    """The rule that forbids it, or the approval that was denied."""
    reason: str
    how: str = ""
    """How the owner of the rules can allow it. For a human, never for a model."""

    def __str__(self) -> str:
        return f"{self.name} was refused: {self.reason} (rule {self.rule})."


class Ask:
    """A request: a human must approve the action first. Begin it again with the same call_id, or wait."""

    def __init__(self, seam: Actions, wanted: Wanted, approval: Approval, always: str = "") -> None:
        self._seam = seam
        self._wanted = wanted
        self.approval = approval.id
        self.name = wanted.name
        self.reason = approval.asked.why
        self.how = f"takeback approve {approval.id}"
        self.always = always
        """How the owner of the rules can avoid the request in future. For a human, never for a model."""

    def __str__(self) -> str:
        return f"{self.name} waits for your approval: {self.how}"

    def wait(self, wait_s: float = 3600.0) -> Action | Denied | Ask:
        """Wait for an answer and begin the action if it is yes. Without an answer in time, return this request."""
        gate = self._seam._parts.gate
        ruling = gate.wait(self.approval, seconds_of("wait_s", wait_s))
        approval = self._seam._parts.tracker.ledger.history.approvals[self.approval]
        if approval.life is not Life.OPEN or ruling is None:
            return self._seam._try(self._wanted)
        return self if gate.holds(approval) else Denied(self.name, self.approval, ruling.why)

    async def awaited(self, wait_s: float = 3600.0) -> Action | Denied | Ask:
        """Do what `wait` does, without blocking the event loop. A cancelled task stops waiting."""
        gate, left_s = self._seam._parts.gate, seconds_of("wait_s", wait_s)
        while True:
            approval = (await uncancelled(self._seam._parts.tracker.ledger.refresh)).approvals[self.approval]
            if approval.life is not Life.OPEN or not gate.holds(approval) or left_s <= 0:
                return await uncancelled(lambda: self.wait(0))
            await pause(gates.POLL_S)
            left_s -= gates.POLL_S

    def grant(self, *, by: str, via: str = "") -> Action | Denied | Ask:
        """Record that a human approved this through the host program, and begin the action.

        `by` names the human, and `via` the way in which the answer came. Only in a thread that was opened with
        approvals="host": elsewhere the code that asks must not answer.
        """
        return self._answered(by, via, granted=True)

    def refuse(self, why: str = "", *, by: str, via: str = "") -> Action | Denied | Ask:
        """Record that a human refused this through the host program. Return the refusal."""
        return self._answered(by, via, granted=False, why=why)

    async def agrant(self, *, by: str, via: str = "") -> Action | Denied | Ask:
        """Do what `grant` does, without blocking the event loop."""
        return await uncancelled(lambda: self.grant(by=by, via=via))

    async def arefuse(self, why: str = "", *, by: str, via: str = "") -> Action | Denied | Ask:
        """Do what `refuse` does, without blocking the event loop."""
        return await uncancelled(lambda: self.refuse(why, by=by, via=via))

    def _answered(self, by: str, via: str, *, granted: bool, why: str = "") -> Action | Denied | Ask:
        by, via = text_of("the name of the human", by), text_of("the way of the answer", via)
        if not self._seam._is_host or not by:
            missing = (
                "without a name" if self._seam._is_host else "here: its thread leaves answers to a human"
            )
            raise RefusedError(
                f"{self.approval} cannot be answered {missing}. Nothing was answered",
                hint=f'{self.how}, or open the thread with approvals="host" and say by= whom it is answered',
            )
        parts = self._seam._parts
        why = why if granted or why else "it was denied"
        told = ", ".join(filter(None, (why, f"via {via}" if via else "")))
        ledger, lock = parts.tracker.ledger, parts.tracker.lock
        gates.answer(ledger, lock, parts.clock, self.approval, granted=granted, actor=by, why=told)
        return self._seam._try(self._wanted)


class Actions(ABC):
    """A run whose actions are begun and ended from outside."""

    _is_host = False
    """True if the program that uses it may pass on the answers of humans."""
    _containment: Containment | None = None
    """How the caller can hold the commands of its calls."""

    def __init__(self, parts: RunParts) -> None:
        self._parts = parts

    @property
    @abstractmethod
    def id(self) -> str:
        """The id of the run."""

    def begin(
        self,
        name: str,
        args: Mapping[str, Any] | None = None,
        *,
        call_id: str = "",
        scope: str = "",
        again: bool = False,
        declared: Declared | None = None,
        effect: str = "",
        undo: AnyHandler | None = None,
        check: AnyHandler | None = None,
        parent: str = "",
        ref: str = "",
        volatile: Sequence[str] = (),
        asking: bool = False,
        paths: Sequence[str] = (),
    ) -> Action | Denied | Ask:
        """Record that a tool is about to run. Unless it is denied or needs approval, that is durable now.

        What changes until its end belongs to it. A call_id that was already begun returns the same action: its
        `outcome` says what became of it. With `again`, one that failed or was cut short is begun again. `scope` is
        for ids that repeat. `declared` is the declaration of the tool, in place of effect, undo and check.
        `parent` is the call_id of an action inside which this one happens. `volatile` names arguments that do not
        belong to the intent. Without `effect` the effect is unknown. With `asking` the caller asks the human itself,
        so an action that needs approval is begun.
        `paths` are files that it is going to write, if its arguments do not name them: those outside the workspace
        are captured too.
        """
        wanted = self._wanted(
            name,
            args,
            call_id=call_id,
            scope=scope,
            again=again,
            declared=declared,
            effect=effect,
            undo=undo,
            check=check,
            parent=parent,
            ref=ref,
            volatile=volatile,
            paths=paths,
        )
        return self._try(wanted, asking=asking)

    async def abegin(
        self, name: str, args: Mapping[str, Any] | None = None, **options: Unpack[BeginOptions]
    ) -> Action | Denied | Ask:
        """Do what `begin` does, in a thread. If this task is cancelled meanwhile, what was begun is cut short."""
        begun, cancelled = await wholly(lambda: self.begin(name, args, **options))
        if cancelled:
            if isinstance(begun, Action) and begun.known_outcome == "open":
                await wholly(lambda: begun.end(error=cancelled))
            raise cancelled
        return begun

    def _wanted(
        self,
        name: str,
        args: Mapping[str, Any] | None,
        *,
        call_id: str = "",
        scope: str = "",
        again: bool = False,
        declared: Declared | None = None,
        effect: str = "",
        undo: AnyHandler | None = None,
        check: AnyHandler | None = None,
        parent: str = "",
        ref: str = "",
        volatile: Sequence[str] = (),
        paths: Sequence[str] = (),
    ) -> Wanted:
        name, call_id = text_of("the name of an action", name), text_of("the call_id of an action", call_id)
        declared = declare.declared_at(name, declared, effect, undo, check)
        volatile = (*volatile, *declared.volatile)
        given = self._plain(dict(args or {}), f"the arguments of {name}")
        intended = {argument: value for argument, value in given.items() if argument not in volatile}
        call_id, scope = call_id or self._unnamed(name, intended), text_of("the scope of an action", scope)
        place = self._place()
        if parent:
            place = msgspec.structs.replace(place, parent=self.action(parent).id)
        kept: dict[str, Any] = {"args": [], "kwargs": given}
        if data := declared.data():
            kept[HANDLERS] = data
        return Wanted(
            name,
            declared.effect,
            f"{scope}/{call_id}" if scope else call_id,
            kept,
            given,
            view(kept),
            name,
            keys.intent_key(name, intended),
            declared.handlers(),
            place.step,
            place.parent,
            looking=declared.effect is not e.Effect.NONE,
            undeclared=declared.effect is e.Effect.UNKNOWN and not effect,
            apart=True,
            actor=place.actor,
            session=place.session,
            ref=ref,
            process=place.process,
            paths=tuple(paths),
            payload={"args": [], "kwargs": intended},
            again=again,
            containment=self._containment,
        )

    def _plain(self, value: Any, place: str) -> Any:
        """Return a value as it is stored. Raise UsageError if it cannot be."""
        return plain(value, place)

    def _unnamed(self, name: str, _intended: Any, /) -> str:
        """Return an id for an action whose caller has none."""
        raise UsageError(f"{name} has no call_id, so it could never be ended; it was not begun")

    def _known(self, recorder: Recorder, wanted: Wanted) -> Recorded | None:
        """Return the action that was begun with this key, if it stands. The caller holds the lock."""
        return recorder.completed(wanted, replayed=self._place().replayed, at_work=True)

    def _passed(self, recorder: Recorder) -> list[e.Event]:
        """Return the events that come before the beginning of an action. Raise if nothing can be begun any more."""
        self._refuse_ended(recorder.run)
        return []

    def action(self, call_id: str) -> Action:
        """Return the action that was begun with this call_id, by any process."""
        run = self._recorder().run
        found = self._recorder().history().calls_of(run.id, call_id)
        if not found:
            raise UsageError(f"run {run.id} has no action with the call_id {call_id!r}; nothing was changed")
        return Action(self._recorder(), self._parts.tracker.ledger.history.actions[found[-1]])

    def _place(self) -> ActionScope:
        """Return the place of an action that is begun now."""
        return ActionScope()

    def _recorder(self) -> Recorder:
        return Recorder(self._parts.tracker.ledger.refresh().runs[self.id], self._parts)

    def _try(self, wanted: Wanted, *, asking: bool = False) -> Action | Denied | Ask:
        answer = self._decide(wanted, asking=asking)
        if isinstance(answer, Ask):
            gate, approvals = self._parts.gate, self._parts.tracker.ledger.history.approvals
            gate.consult(approvals[answer.approval])
            if approvals[answer.approval].life is not Life.OPEN:
                answer = self._decide(wanted)
        return answer

    def _decide(self, wanted: Wanted, *, asking: bool = False) -> Action | Denied | Ask:
        """Decide under the lock: of two processes with one call_id, one begins the action and the other finds it."""
        gate = self._parts.gate
        with self._parts.tracker.lock.held():
            recorder = self._recorder()
            recorder.refuse_unready(wanted)
            wanted = recorder.foreseen(wanted)
            known = self._known(recorder, wanted)
            if known and not (wanted.again and outcome_of(recorder.history(), known) in AGAIN):
                return Action(recorder, known, self._still_asked(known, wanted))
            passed = self._passed(recorder)
            locked = recorder.locked(wanted)
            ruling = locked if locked.do is Ruling.DENY else gate.rule(wanted, wanted.key)
            if ruling.do is Ruling.ASK and asking:
                call, id = recorder.begin(
                    msgspec.structs.replace(wanted, ref=f"{wanted.ref} {ASKED}".strip()), passed
                )
                return Action(
                    recorder,
                    self._parts.tracker.ledger.history.actions[id],
                    ruling.why,
                    locked.why,
                    ruling.how,
                    call,
                )
            if ruling.do is Ruling.ASK:
                approval = gate.ask(self.id, wanted, ruling.why, wanted.key)
                if approval.life is Life.OPEN:
                    return Ask(self, wanted, approval, ruling.how)
                ruling = verdict(approval) or Decision()
                passed.append(e.ApprovalUsed(approval.id))
            if ruling.do is Ruling.DENY:
                gate.note(self.id, wanted, ruling)
                return Denied(wanted.name, ruling.rule, ruling.why, ruling.how)
            call, id = recorder.begin(wanted, passed)
            begun = self._parts.tracker.ledger.history.actions[id]
            return Action(recorder, begun, warning=locked.why, call=call)

    def _still_asked(self, known: Recorded, wanted: Wanted) -> str:
        """Return why an action that was already begun needs approval: its caller may have missed the first answer."""
        asked = known.life is Life.OPEN and ASKED in known.as_tool.ref.split()
        return self._parts.gate.rule(wanted, wanted.key).why if asked else ""

    def _refuse_ended(self, run: RecordedRun) -> None:
        if run.life is not Life.OPEN:
            raise UsageError(
                f"run {run.id} is {run.life}, so nothing can be begun in it; nothing was begun",
                hint="begin another run",
            )
