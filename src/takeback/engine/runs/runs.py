"""The runs of a workspace: beginning, approvals, handovers and resuming."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from takeback.core import events as e
from takeback.core.entities import Approval, RecordedAction
from takeback.core.entities import RecordedRun as Recorded
from takeback.core.history import History
from takeback.core.lifecycle import Life
from takeback.core.values import plain
from takeback.engine.gate import gate
from takeback.engine.gate.gate import Approve, Gate
from takeback.engine.runs.actions import ActionScope
from takeback.engine.runs.checks import seconds_of
from takeback.engine.runs.declare import refuse_idle
from takeback.engine.runs.parts import Options, RunParts, SharedParts
from takeback.engine.runs.recorded_calls import in_doubt, told
from takeback.engine.runs.run import Run
from takeback.engine.runs.session import Session, attached, joined, leader
from takeback.engine.runs.thread import Thread
from takeback.engine.runs.values import Codec, as_is
from takeback.engine.runs.workflow_file import KeptFile
from takeback.errors import RefusedError, UsageError


class Runs:
    """The runs of one workspace."""

    def __init__(self, shared: SharedParts) -> None:
        self.shared = shared
        self._tracker = shared.tracker
        self._ledger = shared.tracker.ledger
        self._calls = shared.calls
        self._clock = shared.clock
        self._recover = shared.recover

    def run(self, options: Options, *, approve: Approve | None, approval_wait_s: float) -> Run:
        options = options.checked()
        seconds_of("approval_wait_s", approval_wait_s)
        return Run(self.parts_of(options, approve, approval_wait_s), options)

    def parts_of(
        self, options: Options, approve: Approve | None = None, approval_wait_s: float = 3600.0
    ) -> RunParts:
        refuse_idle("function", approve=approve)
        began, judging = options.began, self.shared.judges(options.roots)
        gate_of_run = Gate(
            self._ledger,
            self._tracker.lock,
            self._clock,
            judging,
            autopilot=began.autopilot,
            approve=approve,
            wait_s=approval_wait_s,
        )
        file = KeptFile(self.shared.root, began.name, began.key, options.steps, began.actor)
        shared = msgspec.structs.asdict(self.shared)
        return RunParts(**shared, judging=judging, gate=gate_of_run, file=file)

    # Runs that are not the work of one process

    def session(self, options: Options, *, pid: int, approve: Approve | None) -> Session:
        """Return the open session with this key, or a new one."""
        self._recover()
        options = options.checked()
        began = msgspec.structs.replace(options.began, detached=True, process=leader(pid))
        place = ActionScope(
            parent=self._there(began.parent), actor=began.actor, session=began.session, process=began.process
        )
        return joined(self.parts_of(options, approve), began, place)

    def thread(
        self,
        options: Options,
        codec: tuple[Callable[[Any], Any] | None, Callable[[Any], Any] | None],
        approvals: str,
        *,
        approve: Approve | None,
        approval_wait_s: float,
    ) -> Thread:
        """Return the thread with this key; it is looked for, or begun, when it is first used."""
        if not options.began.key:
            raise UsageError("a thread needs a key, so that other processes find it; nothing was begun")
        if approvals not in ("human", "host"):
            raise UsageError(f"{approvals!r} is not a way to answer requests", hint="use human or host")
        options = options.checked()
        name = options.began.name or options.began.key
        began = msgspec.structs.replace(options.began, name=name, detached=True, thread=True)
        options = msgspec.structs.replace(options, began=began)
        seconds_of("approval_wait_s", approval_wait_s)
        encode, decode = codec
        values = Codec(encode or as_is, decode or as_is)
        parts = self.parts_of(options, approve, approval_wait_s)
        return Thread(parts, options, values, is_host=approvals == "host")

    def attach(self, id: str, *, actor: str, parent: str) -> Session:
        """Return an open run of any process, to begin and end actions in it from here."""
        self._recover()
        run = self._known(self._ledger.refresh(), id)
        place = ActionScope(
            parent=self._there(parent), actor=actor, session=run.began.session, process=run.began.process
        )
        began = e.RunBegan(run.began.name, actor=actor, autopilot=run.began.autopilot)
        return attached(self.parts_of(Options(began)), run, place)

    def _there(self, action: str) -> str:
        return action if action in self._ledger.history.actions else ""

    def resume(self, id: str = "") -> list[Recorded]:
        """Settle what a crash left in doubt. Return the runs that can be continued, or only the one named."""
        self._recover()
        history = self._ledger.refresh()
        if id:
            run = self._known(history, id)
            if run.began.thread:
                raise UsageError(
                    f"{id} is a thread, which goes on whenever its program does: there is nothing to resume",
                    hint=f"`takeback undo {id}` takes it back",
                )
            if run.life is Life.OPEN and run.began.detached:
                # Nothing proves that a call is over, but the caller says so. An agent that goes on nevertheless
                # begins another run.
                parts = self.parts_of(Options(e.RunBegan(run.began.name)))
                Session(parts, id, ActionScope()).end(error="it was left open")
                return []
            if run.life not in (Life.INTERRUPTED, Life.HANDED_OVER):
                raise UsageError(f"run {id} is {run.life}, so there is nothing to resume")
            return [run]
        return history.waiting_runs()

    # Requests for approval

    def approvals(self) -> list[Approval]:
        """Return the open requests that have not expired and whose runs can still use the answer."""
        history, now_us = self._ledger.refresh(), self._clock.now_us()
        found = [a for a in history.unused_approvals() if a.life is Life.OPEN]
        return [a for a in found if a.asked.expires_us > now_us and not gate.is_over(history, a)]

    def answer(
        self, id: str, *, granted: bool, actor: str, why: str = "", payload: str = "", inside: str = ""
    ) -> Approval:
        """Record a human's answer. `inside` is the action this process runs in: an agent cannot approve itself."""
        if inside:
            raise RefusedError(
                f"an agent cannot approve its own request: this command runs inside {inside}. Nothing was answered",
                hint="answer from your own terminal",
            )
        return gate.answer(
            self._ledger,
            self._tracker.lock,
            self._clock,
            id,
            granted=granted,
            actor=actor,
            why=why,
            payload=payload,
        )

    # Handovers

    def handovers(self) -> list[Recorded]:
        """Return the runs that wait for a human."""
        return [run for run in self._ledger.refresh().waiting_runs() if run.life is Life.HANDED_OVER]

    def take(self, id: str, actor: str) -> Recorded:
        run = self._handed_over(id)
        self._ledger.append([e.RunTaken(actor)], run.id)
        return run

    def give_back(
        self,
        id: str,
        actor: str,
        note: str = "",
        happened: Sequence[str] | Mapping[str, Any] = (),
        never: Sequence[str] = (),
    ) -> Recorded:
        """Return a run to its agent, with the human's answers about calls in doubt.

        `happened` names calls, or maps each to its result, with which the run continues.
        """
        results = happened if isinstance(happened, Mapping) else dict.fromkeys(happened)
        with self._tracker.lock.held():
            run = self._handed_over(id)
            words: list[e.Event] = []
            words += [self._told(run, action, actor, result, did=True) for action, result in results.items()]
            words += [self._told(run, action, actor, None, did=False) for action in never]
            self._tracker.observe()  # what the human changed is theirs
            self._ledger.append([*words, e.RunReturned(actor, note)], run.id)
        return run

    def settle(self, id: str, actor: str, result: Any, *, happened: bool) -> RecordedAction:
        """Record a human's answer on a call in doubt, whatever its run does."""
        with self._tracker.lock.held():
            history = self._ledger.refresh()
            action = history.actions.get(id)
            if action is None:
                raise UsageError(f"there is no action {id}", hint="`takeback log` lists what there is")
            run = history.runs.get(action.stream)
            if run is None or not in_doubt(history, action):
                raise UsageError(
                    f"{id} ({action.name}) is not in doubt; nothing was changed",
                    hint="`takeback status` lists the calls that are",
                )
            self._ledger.append([self._told(run, id, actor, result, did=happened)], run.id)
        return action

    def _told(self, run: Recorded, id: str, actor: str, result: Any, *, did: bool) -> e.Event:
        history = self._ledger.history
        action = history.actions.get(id)
        if action is None or id not in run.actions or not in_doubt(history, action):
            raise UsageError(f"{id} is not a call of {run.id} that is in doubt; nothing was changed")
        kept = self._calls.keep(plain(result, f"the result of {id}"))
        return e.ActionTold(id, did, told(history, action, happened=did), actor, kept.view, kept.full)

    def _handed_over(self, id: str) -> Recorded:
        run = self._known(self._ledger.refresh(), id)
        if run.life is not Life.HANDED_OVER:
            raise UsageError(f"run {id} is {run.life}, not handed over; nothing was changed")
        return run

    def _known(self, history: History, id: str) -> Recorded:
        run = history.runs.get(id)
        if run is None:
            raise UsageError(f"there is no run {id}", hint="`takeback log` lists what there is")
        return run
