"""The gate before an action: allow it, ask a human first, or refuse it.

An approval is bound to the digest of exactly what is to be done, is valid once, and expires.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

from takeback.core import events as e
from takeback.core.codec import value_digest
from takeback.core.entities import Approval
from takeback.core.history import History
from takeback.core.lifecycle import Life
from takeback.core.policy import ALLOWED, Decision
from takeback.core.rules import Ruling
from takeback.core.values import shortened
from takeback.engine.gate.rules import Judging
from takeback.engine.gate.wanted import Wanted
from takeback.engine.ledger import Ledger
from takeback.errors import RefusedError, UsageError
from takeback.ports.clock import Clock
from takeback.ports.lock import Lock

POLL_S = 0.1
_log = logging.getLogger("takeback")


Approve = Callable[[Approval], bool | None]
"""Answers a request; None leaves it to a human."""


class Gate:
    """Decides, asks and waits, for one run."""

    def __init__(
        self,
        ledger: Ledger,
        lock: Lock,
        clock: Clock,
        judging: Judging,
        *,
        autopilot: bool,
        approve: Approve | None,
        wait_s: float,
    ) -> None:
        self._ledger = ledger
        self._lock = lock
        self._clock = clock
        self._judging = judging
        self._autopilot = autopilot
        self._approve = approve
        self._wait_s = wait_s
        self._claimed: set[str] = set()
        self._asked: dict[str, Decision] = {}
        self._claiming = threading.Lock()

    def rule(self, wanted: Wanted, key: str = "") -> Decision:
        """Decide on an action by the user's rules. On autopilot refuse what is irreversible or needs approval.

        An action with a `key` is judged and counted once, however often it is tried. On autopilot an undeclared
        function is refused unless the rules allow it.
        """
        if key in self._asked:
            return self._asked[key]
        decision = self._ruled(wanted)
        if key and decision.do is Ruling.ASK:
            self._asked[key] = decision
        return decision

    def _ruled(self, wanted: Wanted) -> Decision:
        found = self._judging(wanted, undeclared=wanted.undeclared and self._autopilot)
        if not self._autopilot:
            return found
        allowed = found.do is Ruling.ALLOW and found.rule == ALLOWED
        if wanted.effect is e.Effect.IRREVERSIBLE and found.do is Ruling.ALLOW and not allowed:
            return Decision(Ruling.DENY, "autopilot", "it cannot be taken back", "run it without autopilot")
        if uncontained := _uncontained(wanted):
            return Decision(Ruling.DENY, "autopilot", uncontained, 'set [sandbox] commands = "off"')
        if found.do is Ruling.ASK:
            why = f"{found.why}, and on autopilot there is no human to ask"
            return Decision(Ruling.DENY, found.rule, why, found.how, found.hint)
        return found

    def pass_through(self, run: str, wanted: Wanted) -> list[e.Event]:
        """Let an action through, or raise RefusedError. Return the events to record with its beginning."""
        decision = self.rule(wanted)
        if decision.do is Ruling.ALLOW:
            return []
        if decision.do is Ruling.ASK:
            with self._claiming:  # valid once: another thread with the same payload makes its own request
                approval = self.ask(run, wanted, decision.why)
                self._claimed.add(approval.id)
            self.consult(approval)
            if approval.life is Life.OPEN:
                # A human watching the program should see what it waits for.
                _log.warning("%s waits for your approval: takeback approve %s", wanted.name, approval.id)
            answer = self.wait(approval.id)
            if answer is None:
                return [e.ApprovalUsed(approval.id)]
            decision = answer
        self.refuse(run, wanted, decision)

    def refuse(self, run: str, wanted: Wanted, decision: Decision) -> NoReturn:
        """Record that an action was refused, and raise RefusedError."""
        self.note(run, wanted, decision)
        rule = f"the rule is {decision.rule}" if decision.rule else ""
        raise RefusedError(
            f"{wanted.name} was refused: {decision.why}. It was not started",
            hint=": ".join(filter(None, (rule, decision.hint))),
            how=decision.how,
        )

    def note(self, run: str, wanted: Wanted, decision: Decision) -> None:
        """Record that an action was refused."""
        seen = shortened(wanted.seen)
        refused = e.ActionRefused(wanted.name, wanted.effect, decision.why, decision.rule, seen)
        self._ledger.append([refused], run)

    def consult(self, approval: Approval) -> None:
        """Put a request to the run's `approve` callback, if it has one."""
        if self._approve is None or approval.life is not Life.OPEN:
            return
        if (answer := self._approve(approval)) is not None:
            self._answer(approval.id, approval.run, granted=bool(answer))

    def wait(self, id: str, wait_s: float = math.inf) -> Decision | None:
        """Wait for the answer to a request. None means yes; the caller then records that the approval is used."""
        deadline = time.monotonic() + wait_s
        while True:
            approval = self._ledger.refresh().approvals[id]
            if approval.life is not Life.OPEN or not self.holds(approval) or time.monotonic() > deadline:
                return verdict(approval)
            time.sleep(POLL_S)

    def ask(self, run: str, wanted: Wanted, why: str, key: str = "") -> Approval:
        """Return the request for exactly this payload, made now unless it has been made already.

        A request for the same action `key` that was denied is not made again.
        """
        arguments = wanted.plain if wanted.payload is None else wanted.payload
        payload = payload_of(wanted.tool or wanted.name, arguments)
        history = self._ledger.refresh()
        for approval in reversed(_asked_before(history, run)):
            if approval.asked.payload != payload or approval.id in self._claimed:
                continue
            if self.holds(approval) or (key and approval.asked.key == key and approval.life is Life.DENIED):
                return approval
        expires_us = self._clock.now_us() + int(self._wait_s * 1e6)
        seen = shortened(wanted.seen)
        asked = e.ApprovalAsked(wanted.name, wanted.effect, payload, expires_us, seen, why, key)
        (record,) = self._ledger.append([asked], run)
        return self._ledger.history.approvals[record.id]

    def _answer(self, id: str, run: str, *, granted: bool) -> None:
        """Record the callback's answer. If a human answered meanwhile, a denial by either of them counts."""
        with self._lock.held():
            life = self._ledger.refresh().approvals[id].life
            if life is Life.OPEN:
                self._ledger.append([e.ApprovalAnswered(id, granted, "callback")], run)
            elif life is Life.GRANTED and not granted:
                self._ledger.append([e.ApprovalUsed(id)], run)

    def holds(self, approval: Approval) -> bool:
        """Return whether a request can still be answered, or its answer used."""
        in_time = approval.asked.expires_us > self._clock.now_us()
        return in_time and approval.life in (Life.OPEN, Life.GRANTED)


def _uncontained(wanted: Wanted) -> str:
    """Return why a command whose effect is unknown does not run on autopilot: it should be in the sandbox."""
    held = wanted.containment
    if held is None or held.fence is not None or wanted.effect is not e.Effect.UNKNOWN:
        return ""
    return f"its effect is unknown, and it cannot run in the sandbox: {held.why_not}"


def _asked_before(history: History, run: str) -> list[Approval]:
    """Return the requests of a run; for an agent's session, also those of the same session before a pause."""
    began = history.runs[run].began
    runs = history.runs_of_key(began.key) if began.detached and began.key else [run]
    return [
        approval
        for id in runs
        if id == run or history.runs[id].began.detached
        for approval in history.approvals_of(id)
    ]


def verdict(approval: Approval) -> Decision | None:
    """Return what an answer means: None is yes. Without an answer the action is denied."""
    if approval.life is Life.GRANTED:
        return None
    unanswered = approval.life is Life.OPEN
    why = approval.why or ("there was no answer in time" if unanswered else "it was denied")
    return Decision(Ruling.DENY, approval.id, why)


def payload_of(tool: str, arguments: Any) -> str:
    """Return the digest of what is to be done: the function with its module, and the arguments."""
    return value_digest([tool, arguments])


def answer(
    ledger: Ledger,
    lock: Lock,
    clock: Clock,
    id: str,
    *,
    granted: bool,
    actor: str,
    why: str = "",
    payload: str = "",
) -> Approval:
    """Record a human's answer to a request. The first one counts; a later one raises UsageError."""
    with lock.held():
        return _answered(ledger, clock, id, payload, e.ApprovalAnswered(id, granted, actor, why))


def _answered(ledger: Ledger, clock: Clock, id: str, payload: str, given: e.ApprovalAnswered) -> Approval:
    approval = _open_request(ledger.refresh(), id)
    if payload and payload != approval.asked.payload:
        raise RefusedError(
            f"{id} is about another payload than the one you looked at; nothing was answered",
            hint=f"look again: takeback show {id}",
        )
    if approval.asked.expires_us <= clock.now_us():
        raise RefusedError(f"{id} has expired; nothing was answered", hint="the agent must ask again")
    if is_over(ledger.history, approval):
        raise RefusedError(
            f"{id} was asked by {approval.run}, which is over; nothing was answered",
            hint="the agent must ask again, in another run",
        )
    ledger.append([given], approval.run)
    return ledger.history.approvals[id]


def is_over(history: History, approval: Approval) -> bool:
    """Return whether the run that asked has ended, or was interrupted and has no key to continue it by.

    A session of an agent may go on under its key and ask again.
    """
    run = history.runs[approval.run]
    if run.began.detached and run.began.key:
        return False
    return run.life not in (Life.OPEN, Life.HANDED_OVER) and not (
        run.life is Life.INTERRUPTED and run.began.key
    )


def _open_request(history: History, id: str) -> Approval:
    approval = history.approvals.get(id)
    if approval is None:
        raise UsageError(f"there is no request {id}", hint="`takeback approvals` lists them")
    if approval.life is not Life.OPEN:
        raise UsageError(f"{id} was already {approval.life}; nothing was changed")
    return approval
