"""The two ends of an action, for whoever does not make it: hooks, servers and frameworks.

`begin` is called before a tool runs and `end` after it, by this process or another one. Both do nothing twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from takeback.core import events as e
from takeback.core import keys
from takeback.core.entities import Approval, RecordedRun
from takeback.core.entities import RecordedAction as Recorded
from takeback.core.lifecycle import Life
from takeback.core.policy import Decision
from takeback.core.rules import Ruling
from takeback.core.values import plain, said, view
from takeback.engine.gate.gate import verdict
from takeback.engine.gate.wanted import Wanted
from takeback.engine.runs import declare
from takeback.engine.runs.checks import seconds_of, text_of
from takeback.engine.runs.declare import Declared, Function
from takeback.engine.runs.parts import RunParts
from takeback.engine.runs.recorded_calls import CallEvidence
from takeback.engine.runs.recorder import Recorder
from takeback.errors import UsageError

ASKED = "asked"
"""In the ref of an action: its human was asked by whoever began it, and may have said no."""

NOT_ALLOWED = "it was not allowed"
"""How the reason of an action ends that its human refused, so that it never ran."""


class ActionScope(msgspec.Struct, frozen=True):
    """Where in a run an action stands, and whose it is."""

    step: str = ""
    parent: str = ""
    actor: str = ""
    session: str = ""
    process: e.Process | None = None
    replayed: bool = False


class Action:
    """An action that was begun. Whoever knows its run and its call_id can end it."""

    def __init__(
        self, recorder: Recorder, recorded: Recorded, asked: str = "", warning: str = "", how: str = ""
    ) -> None:
        self._recorder = recorder
        self._recorded = recorded
        began = recorded.began
        assert isinstance(began, e.ActionBegan)
        self.id = recorded.id
        self.name = recorded.name
        self.run = recorded.stream
        self.call_id = began.key
        self.key = began.call_key
        """What the other system is given to know the same intent by."""
        self.ref = began.ref
        self.asked = asked
        """Why a human has to be asked, where whoever began it said that they ask."""
        self.how = how
        """How whoever owns the rules could have it not asked about again. For a human, never for a model."""
        self.warning = warning
        """What its human should know although it was begun: that it writes what another one has locked."""

    def __repr__(self) -> str:
        return f"<Action {self.id} {self.name[:60]!r} {self._recorded.life}>"

    @property
    def ended(self) -> bool:
        """Whether it has ended, here or in another process: then its tool must not run again."""
        return self._now().life not in (Life.OPEN, Life.BACKGROUND)

    @property
    def lives_on(self) -> bool:
        """Whether its tool has answered, and what it started is still at work."""
        return self._now().life is Life.BACKGROUND

    @property
    def result(self) -> Any:
        """What it gave, as far as it has ended."""
        return self._recorder.calls.result(self._now())

    def end(
        self, result: Any = None, *, error: BaseException | str | None = None, presumed: bool = False
    ) -> Action:
        """Record what it gave, or how it failed, and what changed meanwhile. A second end changes nothing.

        An error may be `presumed`: nobody told the end, nor knows when it was. A human may have worked since then,
        so whose the changes are is in doubt.
        """
        recorder, action = self._recorder, self._now()
        if self.ended:
            return self
        if error is None:
            recorder.end(self.id, self.name, result)
        else:
            seen = recorder.calls.look_at(action) if action.is_tool else CallEvidence(False)
            why = error if isinstance(error, str) else said(error)
            recorder.failed(self.id, None, why, seen, unsure=presumed)
        return self

    def live_on(self) -> Action:
        """Say that its tool has answered, and that what it started is still at work: `end()` comes later."""
        self._recorder.live_on(self.id)
        return self

    def drop(self, why: str) -> Action:
        """Say that it was not let happen. Whose the changes of meanwhile are is in doubt."""
        if not self.ended:
            self._recorder.failed(self.id, None, why, CallEvidence(False), unsure=True)
        return self

    def _now(self) -> Recorded:
        return self._recorder.history().actions[self.id]


class Denied(msgspec.Struct, frozen=True):
    """It must not be done, and was not begun."""

    name: str
    rule: str
    """The rule that says so, or the approval that was denied."""
    reason: str
    how: str = ""
    """How whoever owns the rules could allow it. For a human, never for a model."""

    def __str__(self) -> str:
        return f"{self.name} was refused: {self.reason} (rule {self.rule})."


class Ask:
    """A human must allow it first; it was not begun. Begin it again with the same call_id, or wait."""

    def __init__(self, seam: Actions, wanted: Wanted, approval: Approval, always: str = "") -> None:
        self._seam = seam
        self._wanted = wanted
        self.approval = approval.id
        self.name = wanted.name
        self.reason = approval.asked.why
        self.how = f"takeback approve {approval.id}"
        self.always = always
        """How whoever owns the rules could have it not asked about again. For a human, never for a model."""

    def __str__(self) -> str:
        return f"{self.name} waits for your word: {self.how}"

    def wait(self, wait_s: float = 3600.0) -> Action | Denied | Ask:
        """Wait until somebody answers, and begin it if the answer is yes. Without one in time this comes back."""
        gate = self._seam._parts.gate
        ruling = gate.wait(self.approval, seconds_of("wait_s", wait_s))
        approval = self._seam._parts.tracker.ledger.history.approvals[self.approval]
        if approval.life is not Life.OPEN or ruling is None:
            return self._seam._try(self._wanted)
        return self if gate.holds(approval) else Denied(self.name, self.approval, ruling.why)


class Actions(ABC):
    """A run whose actions are begun and ended from outside."""

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
        call_id: str,
        effect: str = "",
        undo: Function | None = None,
        check: Function | None = None,
        parent: str = "",
        ref: str = "",
        volatile: Sequence[str] = (),
        asking: bool = False,
        paths: Sequence[str] = (),
    ) -> Action | Denied | Ask:
        """Say that a tool is about to run. Unless it is denied or asked about, that is durable now.

        What changes until its end belongs to it. A call_id that was begun already gives the same action.
        `parent` is the call_id of an action inside which this one happens. `volatile` names arguments that do not
        belong to the intent. Without an `effect` it is unknown. With `asking` the caller asks the human itself, so
        what has to be asked is begun.
        `paths` are files that it is going to write, where its arguments do not tell: those outside the workspace
        are captured too.
        """
        name, call_id = text_of("the name of an action", name), text_of("the call_id of an action", call_id)
        declare.refuse_idle("handler", undo=undo, check=check)
        if not call_id:
            raise UsageError(f"{name} has no call_id, so nobody could end it; it was not begun")
        declared = Declared(name, declare.effect_of(effect, undo), undo, check)
        given = plain(dict(args or {}), f"the arguments of {name}")
        intended = {argument: value for argument, value in given.items() if argument not in volatile}
        place = self._place()
        if parent:
            place = msgspec.structs.replace(place, parent=self.action(parent).id)
        return self._try(
            Wanted(
                name,
                declared.effect,
                call_id,
                {"args": [], "kwargs": given},
                given,
                {"args": [], "kwargs": view(given)},
                name,
                keys.intent_key(name, intended),
                declared.handlers(),
                place.step,
                place.parent,
                looking=declared.effect is not e.Effect.NONE,
                undeclared=not effect and undo is None,
                apart=True,
                actor=place.actor,
                session=place.session,
                ref=ref,
                process=place.process,
                paths=tuple(paths),
                payload={"args": [], "kwargs": intended},
            ),
            asking=asking,
        )

    def action(self, call_id: str) -> Action:
        """The action that was begun with this call_id, by whatever process."""
        run = self._recorder().run
        found = run.keys.get(call_id)
        if not found:
            raise UsageError(f"run {run.id} has no action with the call_id {call_id!r}; nothing was changed")
        return Action(self._recorder(), self._parts.tracker.ledger.history.actions[found[-1]])

    def _place(self) -> ActionScope:
        """Where an action that is begun now stands."""
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
        """Under the lock: of two processes with one call_id, one begins it and the other finds it."""
        gate = self._parts.gate
        with self._parts.tracker.lock.held():
            recorder = self._recorder()
            recorder.refuse_unready(wanted)
            wanted = recorder.foreseen(wanted)
            if known := recorder.completed(wanted, replayed=self._place().replayed, at_work=True):
                return Action(recorder, known, self._still_asked(known, wanted))
            self._refuse_ended(recorder.run)
            locked = recorder.locked(wanted)
            ruling = locked if locked.do is Ruling.DENY else gate.rule(wanted, wanted.key)
            passed: list[e.Event] = []
            if ruling.do is Ruling.ASK and asking:
                _, id = recorder.begin(
                    msgspec.structs.replace(wanted, ref=f"{wanted.ref} {ASKED}".strip()), []
                )
                return Action(
                    recorder,
                    self._parts.tracker.ledger.history.actions[id],
                    ruling.why,
                    locked.why,
                    ruling.how,
                )
            if ruling.do is Ruling.ASK:
                approval = gate.ask(self.id, wanted, ruling.why, wanted.key)
                if approval.life is Life.OPEN:
                    return Ask(self, wanted, approval, ruling.how)
                ruling = verdict(approval) or Decision()
                passed = [e.ApprovalUsed(approval.id)]
            if ruling.do is Ruling.DENY:
                gate.note(self.id, wanted, ruling)
                return Denied(wanted.name, ruling.rule, ruling.why, ruling.how)
            _, id = recorder.begin(wanted, passed)
            return Action(recorder, self._parts.tracker.ledger.history.actions[id], warning=locked.why)

    def _still_asked(self, known: Recorded, wanted: Wanted) -> str:
        """Why an action that was begun already has to be asked about: whoever asks may not have heard it."""
        asked = known.life is Life.OPEN and ASKED in known.as_tool.ref.split()
        return self._parts.gate.rule(wanted, wanted.key).why if asked else ""

    def _refuse_ended(self, run: RecordedRun) -> None:
        if run.life is not Life.OPEN:
            raise UsageError(
                f"run {run.id} is {run.life}, so nothing can be begun in it; nothing was begun",
                hint="begin another run",
            )
