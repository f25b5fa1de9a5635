"""One action of a run in the journal: known already, let through and begun, ended with what became of it.

Whoever makes an action uses this: a call of a function, and the two ends that hooks, servers and frameworks hold.
"""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from takeback.core import events as e
from takeback.core import keys
from takeback.core.entities import RecordedAction, RecordedRun
from takeback.core.history import History
from takeback.core.lifecycle import Life
from takeback.core.policy import Decision
from takeback.core.rules import Ruling
from takeback.core.values import plain, said
from takeback.engine.gate.wanted import Wanted
from takeback.engine.locks.guard import told
from takeback.engine.runs.parts import RunParts
from takeback.engine.runs.recorded_calls import (
    CallEvidence,
    change_of,
    in_doubt,
    is_gone,
    is_outside,
    standing,
)
from takeback.engine.runs.recorded_calls import told as told_of
from takeback.engine.tracking.recovery import settle_calls
from takeback.engine.tracking.signs_of_life import Heartbeat
from takeback.errors import HandedOver, UsageError
from takeback.resources.calls.resource import Call
from takeback.system import crash_points

_log = logging.getLogger("takeback")

BEFORE_RECORD = crash_points.crash_point("call-before-record")
RECORDED = crash_points.crash_point("call-recorded")
MADE = crash_points.crash_point("call-made")
ENDED = crash_points.crash_point("call-ended")

_NEEDS = {
    e.Effect.DEFERRED: ("the outbox", "run.defer(function, ...) has it called once the run has committed"),
    e.Effect.TRANSACTIONAL: (
        "a transaction, and a call has none",
        "write to a database in a block, `with run.database(place) as db:`; or declare an undo handler",
    ),
}


class Recorder:
    """Records the actions of one run."""

    def __init__(self, run: RecordedRun, parts: RunParts, beat: Heartbeat | None = None) -> None:
        self.run = run
        self.calls = parts.calls
        self.gate = parts.gate
        self._judging = parts.judging
        self._tracker = parts.tracker
        self._ledger = parts.tracker.ledger
        self._rollbacks = parts.rollbacks
        self._beat = beat
        self._locks = parts.locks

    def history(self) -> History:
        """What the journal says now."""
        return self._ledger.refresh()

    # Before

    def foreseen(self, wanted: Wanted) -> Wanted:
        """Return the same with what it would do: a command among its arguments may do more than its tool declares.

        What it names outside the workspace has to be looked at before and after, whoever looks around it.
        """
        found = self._judging.foresee(wanted)
        looking = wanted.looking or bool(found.survey.places)
        return msgspec.structs.replace(wanted, effect=found.effect, foreseen=found, looking=looking)

    def keep_off(self, wanted: Wanted) -> None:
        """Raise where a call says that it writes what others have locked; or say so, by the settings."""
        decision = self.locked(wanted)
        if decision.do is Ruling.DENY:
            self.gate.refuse(self.run.id, wanted, decision)
        if decision.why:
            _log.warning("%s: %s", wanted.name, decision.why)

    def locked(self, wanted: Wanted) -> Decision:
        """Return what the locks of others say of it: not to be begun, or begun with a warning as the reason."""
        found = self._locks.before(wanted.foreseen.touched, run=self.run.id)
        if not found:
            return Decision()
        do = Ruling.DENY if self._locks.refuses else Ruling.ALLOW
        return Decision(do, "locks.on-foreign", told(found), self._locks.how(found))

    def completed(
        self, wanted: Wanted, *, replayed: bool = False, at_work: bool = False
    ) -> RecordedAction | None:
        """The same action, if it was completed and not taken back; or if it is `at_work`, in any process."""
        history = self._ledger.refresh()
        for id in reversed(self.run.keys.get(wanted.key, [])):
            action = history.actions[id]
            if action.name != wanted.name:
                raise UsageError(
                    f"the key {wanted.key!r} is that of {action.name} ({id}); {wanted.name} was not called",
                    hint="a key names one action of its run",
                )
            if at_work and action.life is Life.OPEN:
                return self._same(action, wanted)
            # Nobody else is at work on this key, so one that is open was cut short by an interrupt.
            settle_calls(self._tracker, self.calls, [id], "it was interrupted")
            self._clear_up(action)
            # Also one that raised, was cut short, or could not be taken back: the other system has it.
            if standing(history, action):
                return self._same(action, wanted)
            if is_gone(history, action) or id in history.moves.lost:
                break
            if action.life is Life.DONE or at_work:
                return self._same(action, wanted)
        if replayed:
            raise UsageError(
                f"run {self.run.id} was committed without this call of {wanted.name}; it was not made",
                hint="a changed plan is another run: give it another key",
            )
        return None

    def _clear_up(self, action: RecordedAction) -> None:
        """An action of which nobody can tell whether it is there must not be made again, nor taken for granted."""
        history = self._ledger.history
        if is_outside(action) and history.is_half_undone(action.id):
            self._rollbacks.once_more(action.id)
            if history.is_half_undone(action.id):
                raise HandedOver(
                    f"{action.name} ({action.id}) was to be taken back, and nobody can tell whether it is",
                    hint=f"look, mend its undo handler, then `takeback undo {action.id}`",
                )
        if in_doubt(history, action) and not self._checked_again(action):
            raise HandedOver(
                f"nobody can tell whether {action.name} ({action.id}) happened: {action.why}",
                hint=f"look, then `takeback handover return {self.run.id} --happened {action.id}` (or --never)",
            )

    def _same(self, action: RecordedAction, wanted: Wanted) -> RecordedAction:
        """This recorded action, if it is the one that is wanted: a key that was given says too little by itself."""
        recorded = action.as_tool.intent
        if recorded and wanted.intent and recorded != wanted.intent:
            raise UsageError(
                f"the key {wanted.key!r} is that of {action.name} with other arguments ({action.id}); "
                "nothing was called",
                hint="give each call its own key; what differs by attempt is named with @action(volatile=...)",
            )
        return action

    def _checked_again(self, action: RecordedAction) -> bool:
        """Ask the check of a call in doubt once more: it may be able to tell by now."""
        seen = self.calls.look_at(action)
        if seen.in_doubt:
            return False
        changes = told_of(self._ledger.history, action, happened=seen.happened)
        with self.calls.keeping(seen.result) as kept:
            word = e.ActionTold(action.id, seen.happened, changes, "check", kept.view, kept.full)
            self._ledger.append([word], self.run.id)
        return True

    def refuse_unready(self, wanted: Wanted) -> None:
        if wanted.effect in _NEEDS:
            needs, hint = _NEEDS[wanted.effect]
            raise UsageError(
                f"{wanted.name} is {wanted.effect}, which needs {needs}; it was not called", hint=hint
            )

    def begin(self, wanted: Wanted, passed: list[e.Event]) -> tuple[Call, str]:
        """Record that it begins, with what the gate said. Without an effect there is nothing to record yet."""
        run, history = self.run, self._ledger.history
        attempts = [id for id in run.keys.get(wanted.key, ()) if is_gone(history, history.actions[id])]
        identity = f"key {run.began.key}" if run.began.key else f"run {run.id}"
        key = keys.call_key(
            self._tracker.origin, identity, run.began.generation, wanted.key, 1 + len(attempts)
        )
        call = Call(wanted.name, wanted.plain["args"], wanted.plain["kwargs"], key)
        if wanted.effect is e.Effect.NONE and not wanted.apart:
            if passed:
                self._ledger.append(passed, run.id)
            return call, ""
        survey = wanted.foreseen.survey
        with self.calls.keeping(wanted.plain, wanted.seen) as kept:
            began = e.ActionBegan(
                wanted.name,
                wanted.effect,
                actor=wanted.actor,
                session=wanted.session,
                step=wanted.step,
                parent=wanted.parent,
                ref=wanted.ref,
                key=wanted.key,
                arguments=kept.view,
                full=kept.full,
                process=wanted.process,
                handlers=wanted.handlers,
                call_key=key,
                tool=wanted.tool,
                intent=wanted.intent,
                outside=survey.places,
                uncaptured=(*survey.missed, *survey.stated),
            )
            crash_points.reach(BEFORE_RECORD)
            id = self._tracker.begin(began, stream=run.id, before=passed, looking=wanted.looking)
        if wanted.looking:
            (self._beat.add if self._beat else self._tracker.life.show)(id)
        crash_points.reach(RECORDED)
        return call, id

    # After

    def end(self, id: str, name: str, result: Any, wanted: Wanted | None = None) -> None:
        """Record what it gave. It happened, whatever becomes of that.

        `wanted` says that nobody but the caller can end it.
        """
        try:
            crash_points.reach(MADE)
            if self._beat:
                self._beat.show()
            with self.calls.keeping(plain(result, f"what {name} returned")) as kept:
                self.close(id, wanted, e.Outcome.DONE, "", kept.view, kept.full, happened=True)
        except BaseException as error:
            why = error.message if isinstance(error, UsageError) else f"it was made, and then: {said(error)}"
            if id and self._ledger.refresh().actions[id].life is not Life.OPEN:
                raise
            if id or isinstance(error, UsageError):
                self.close(id, wanted, e.Outcome.FAILED, why, happened=True)
            raise
        crash_points.reach(ENDED)

    def live_on(self, id: str) -> None:
        """Record that its tool has answered while what it started is still at work."""
        self._tracker.end(id, e.Outcome.DONE, lives_on=True)

    def failed(
        self, id: str, wanted: Wanted | None, why: str, seen: CallEvidence, *, unsure: bool = False
    ) -> None:
        """Record that it ended badly, with what the world says of it; `unsure` is as in Tracker.end."""
        with self.calls.keeping(seen.result) as kept:
            self.close(
                id,
                wanted,
                e.Outcome.FAILED,
                why,
                kept.view,
                kept.full,
                happened=seen.happened,
                in_doubt=seen.in_doubt,
                unsure=unsure,
            )

    def close(
        self,
        id: str,
        wanted: Wanted | None,
        outcome: e.Outcome,
        why: str,
        result: Any = None,
        full: str = "",
        *,
        happened: bool,
        in_doubt: bool = False,
        unsure: bool = False,
    ) -> None:
        """Record the end of an action; of one without an effect, all of it."""
        if not id:
            if wanted is not None and happened:
                self._note(wanted, outcome, why, result, full)
            return
        action = self._ledger.history.actions[id]
        changes = change_of(action, in_doubt=in_doubt) if happened else ()
        if wanted is None or bool(action.began.marks):
            self._tracker.end(id, outcome, why=why, changes=changes, result=result, full=full, unsure=unsure)
            (self._beat.remove if self._beat else self._tracker.life.end)(id)
        else:
            ended = e.ActionEnded(id, outcome, changes, why=why, result=result, full=full)
            self._ledger.append([ended], self.run.id)

    def _note(self, wanted: Wanted, outcome: e.Outcome, why: str, result: Any, full: str) -> None:
        shown = self.calls.keep(wanted.plain, wanted.seen).view
        place = (wanted.step, wanted.parent, wanted.key)
        noted = e.ActionNoted(
            wanted.name, outcome, *place, shown, result, full, why, wanted.tool, wanted.intent
        )
        self._ledger.append([noted], self.run.id)
