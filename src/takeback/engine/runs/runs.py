"""What a workspace does with its runs: begin one, pass its questions to humans, hand it over, resume it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from takeback.core import events as e
from takeback.core.entities import Approval, RecordedAction
from takeback.core.entities import RecordedRun as Recorded
from takeback.core.history import History
from takeback.core.lifecycle import Life
from takeback.core.redact import redact
from takeback.core.values import plain
from takeback.engine.gate import gate
from takeback.engine.gate.gate import Approve, Gate
from takeback.engine.gate.rules import Judging
from takeback.engine.locks.guard import LockGuard
from takeback.engine.locks.leases import Leases
from takeback.engine.rollback.rollback import Rollbacks
from takeback.engine.runs.actions import ActionScope
from takeback.engine.runs.checks import choice_of, seconds_of, text_of
from takeback.engine.runs.declare import refuse_idle
from takeback.engine.runs.parts import Options, RunParts
from takeback.engine.runs.recorded_calls import RecordedCalls, in_doubt, told
from takeback.engine.runs.run import Run
from takeback.engine.runs.session import Session, attached, joined, leader
from takeback.engine.runs.workflow_file import KeptFile
from takeback.engine.tracking.tracker import Tracker
from takeback.errors import RefusedError, UsageError
from takeback.ports.clock import Clock
from takeback.ports.databases import Databases

CHECKPOINTS = ("action", "step", "run")


class Runs:
    """The runs of one workspace."""

    def __init__(
        self,
        tracker: Tracker,
        rollbacks: Rollbacks,
        calls: RecordedCalls,
        clock: Clock,
        recover: Callable[[], None],
        judges: Callable[[Sequence[str]], Judging],
        root: Path,
        databases: Databases,
        deliver: Callable[[str], object],
        leases: Leases,
        locks: LockGuard,
    ) -> None:
        self._tracker = tracker
        self._ledger = tracker.ledger
        self._rollbacks = rollbacks
        self._calls = calls
        self._clock = clock
        self._recover = recover
        self._judges = judges
        self._root = root
        self._databases = databases
        self._deliver = deliver
        self._leases = leases
        self._locks = locks

    def run(self, options: Options, *, approve: Approve | None, approval_wait_s: float) -> Run:
        if options.checkpoint not in CHECKPOINTS:
            raise UsageError(
                f"{options.checkpoint!r} is no checkpoint granularity", hint="one of action, step, run"
            )
        seconds_of("approval_wait_s", approval_wait_s)
        o = options = msgspec.structs.replace(options, name=redact(options.name))
        return Run(self._parts(o, approve, approval_wait_s), o)

    def _parts(self, o: Options, approve: Approve | None = None, approval_wait_s: float = 3600.0) -> RunParts:
        refuse_idle("function", approve=approve)
        judging = self._judges(o.roots)
        door = Gate(
            self._ledger,
            self._tracker.lock,
            self._clock,
            judging,
            autopilot=o.autopilot,
            approve=approve,
            wait_s=approval_wait_s,
        )
        file = KeptFile(self._root, o.name, o.key, o.steps, o.actor)
        return RunParts(
            self._tracker,
            self._rollbacks,
            self._calls,
            judging,
            door,
            self._recover,
            file,
            self._databases,
            self._deliver,
            self._leases,
            self._locks,
        )

    # Runs that are not the work of one process

    def session(self, options: Options, *, pid: int, approve: Approve | None) -> Session:
        """The open session with this key, or a new one."""
        self._recover()
        o = msgspec.structs.replace(options, name=redact(options.name))
        lead = leader(pid)
        began = o.began(detached=True, process=lead)
        place = ActionScope(parent=self._there(o.parent), actor=o.actor, session=o.session, process=lead)
        return joined(self._parts(o, approve), began, place)

    def attach(self, id: str, *, actor: str, parent: str) -> Session:
        """An open run of whatever process, to begin and end actions in it from here."""
        self._recover()
        run = self._known(self._ledger.refresh(), id)
        place = ActionScope(
            parent=self._there(parent), actor=actor, session=run.began.session, process=run.began.process
        )
        options = Options(run.began.name, actor=actor, autopilot=run.began.autopilot)
        return attached(self._parts(options), run, place)

    def _there(self, action: str) -> str:
        return action if action in self._ledger.history.actions else ""

    def resume(self, id: str = "") -> list[Recorded]:
        """Settle what a crash left in doubt; gives the runs that can be continued, or the one that is named."""
        self._recover()
        history = self._ledger.refresh()
        if id:
            run = self._known(history, id)
            if run.life is Life.OPEN and run.began.detached:
                # Nothing tells for certain that a call is over. Whoever asks for this says so; an agent that goes
                # on all the same begins another run.
                Session(self._parts(Options(run.began.name)), id, ActionScope()).end(error="it was left open")
                return []
            if run.life not in (Life.INTERRUPTED, Life.HANDED_OVER):
                raise UsageError(f"run {id} is {run.life}, so there is nothing to resume")
            return [run]
        return [r for r in history.runs.values() if r.life in (Life.INTERRUPTED, Life.HANDED_OVER)]

    # Questions

    def approvals(self) -> list[Approval]:
        """Questions that wait for an answer, have not run out, and are of runs that may still use it."""
        history, now_us = self._ledger.refresh(), self._clock.now_us()
        found = [a for a in history.approvals.values() if a.life is Life.OPEN]
        return [a for a in found if a.asked.expires_us > now_us and not gate.is_over(history, a)]

    def answer(
        self, id: str, *, granted: bool, actor: str, why: str = "", payload: str = "", inside: str = ""
    ) -> Approval:
        """A human's word. `inside` is the action in whose process tree this is: an agent cannot allow itself."""
        if inside:
            raise RefusedError(
                f"this was asked from inside {inside}: what asks cannot answer. Nothing was answered",
                hint="answer from a terminal of your own",
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
        """Runs that wait for a human."""
        return [run for run in self._ledger.refresh().runs.values() if run.life is Life.HANDED_OVER]

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
        """Give a run back, with the human's word on what nobody else could tell.

        `happened` names calls, or maps each to what it gave, for the run to go on with.
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
            raise UsageError(f"{id} is no call of {run.id} that is in doubt; nothing was changed")
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


def options_of(
    name: str, *, on_conflict: str, invariants: Sequence[Callable[[], object]], **others: Any
) -> Options:
    name = text_of("the name of the run", name)
    others["key"] = text_of("the key of the run", others.get("key", ""))
    for invariant in invariants:
        refuse_idle("of the run", invariant=invariant)
    seconds_of("wait_s", others.get("wait_s", 0))
    return Options(name, on_conflict=choice_of(on_conflict), invariants=tuple(invariants), **others)
