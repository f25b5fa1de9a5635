"""One action of a run in the journal: found there, or passed through the gate, begun and ended.

Used by calls of functions, and by `begin` and `end` for hooks, servers and frameworks.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import Any

import msgspec

from takeback.core import events as e
from takeback.core import keys
from takeback.core.codec import text_of
from takeback.core.entities import RecordedAction, RecordedRun
from takeback.core.history import History
from takeback.core.lifecycle import Life
from takeback.core.policy import Decision, relative
from takeback.core.rules import Ruling
from takeback.core.values import said
from takeback.engine.gate.wanted import Wanted, contained
from takeback.engine.locks.guard import told
from takeback.engine.runs.parts import RunParts
from takeback.engine.runs.recorded_calls import (
    HANDLERS,
    CallEvidence,
    change_of,
    in_doubt,
    is_gone,
    is_outside,
    standing,
)
from takeback.engine.runs.recorded_calls import told as told_of
from takeback.engine.runs.values import Codec
from takeback.engine.tracking.recovery import settle_calls, settle_one
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
    e.Effect.DEFERRED: ("the outbox", "run.defer(function, ...) calls it once the run has committed"),
    e.Effect.TRANSACTIONAL: (
        "a transaction, which a call does not have",
        "write to a database in a block, `with run.database(place) as db:`; or declare an undo handler",
    ),
}


class OpenHere:
    """The actions that a caller in this process has begun and not ended."""

    def __init__(self) -> None:
        self.begun: set[str] = set()
        self.entered: set[str] = set()
        """Those whose blocks are at work, and end them."""

    def left(self) -> list[str]:
        """Return those that nothing will end."""
        return sorted(self.begun - self.entered)


class Recorder:
    """The recorder of the actions of one run."""

    def __init__(
        self,
        run: RecordedRun,
        parts: RunParts,
        beat: Heartbeat | None = None,
        codec: Codec | None = None,
        open_here: OpenHere | None = None,
    ) -> None:
        self.run = run
        self.codec = codec or Codec()
        self.open_here = open_here or OpenHere()
        self.root = str(parts.root)
        self.calls = parts.calls
        self.gate = parts.gate
        self._judging = parts.judging
        self._tracker = parts.tracker
        self._ledger = parts.tracker.ledger
        self._rollbacks = parts.rollbacks
        self._beat = beat
        self._locks = parts.locks

    def history(self) -> History:
        """Return the present history."""
        return self._ledger.refresh()

    def known(self) -> History:
        """Return the history as it was last read, without asking the store."""
        return self._ledger.history

    # Before

    def foreseen(self, wanted: Wanted) -> Wanted:
        """Return the action with what it would do: a command in its arguments may do more than its tool declares.

        Places that it names outside the workspace have to be looked at before and after it.
        """
        found = self._judging.foresee(wanted)
        looking = wanted.looking or bool(found.survey.places)
        known = msgspec.structs.replace(wanted, effect=found.effect, foreseen=found, looking=looking)
        return contained(known)

    def keep_off(self, wanted: Wanted) -> None:
        """Refuse a call that would write what others have locked, or only warn, depending on the settings."""
        decision = self.locked(wanted)
        if decision.do is Ruling.DENY:
            self.gate.refuse(self.run.id, wanted, decision)
        if decision.why:
            _log.warning("%s: %s", wanted.name, decision.why)

    def locked(self, wanted: Wanted) -> Decision:
        """Return the decision by the locks of others: denied, or allowed with a warning as the reason."""
        found = self._locks.before(wanted.foreseen.touched, run=self.run.id)
        if not found:
            return Decision()
        do = Ruling.DENY if self._locks.refuses else Ruling.ALLOW
        return Decision(do, "locks.on-foreign", told(found), self._locks.how(found))

    def completed(
        self, wanted: Wanted, *, replayed: bool = False, at_work: bool = False
    ) -> RecordedAction | None:
        """Return this action if it was completed and not taken back; with `at_work` also if it is still open."""
        history = self._ledger.refresh()
        for id in reversed(history.calls_of(self.run.id, wanted.key)):
            action = history.actions[id]
            self._refuse_renamed(action, wanted)
            if at_work and action.life is Life.OPEN:
                return self._same(action, wanted)
            # No other thread uses this key now, so an open action was cut short by an interrupt.
            settle_calls(self._tracker, self.calls, [id], "it was interrupted")
            self._clear_up(action)
            # Even if it raised, was cut short, or could not be taken back: the other system has it.
            if standing(history, action):
                return self._same(action, wanted)
            if is_gone(history, action) or id in history.moves.lost:
                break
            if action.life is Life.DONE or at_work:
                return self._same(action, wanted)
        if replayed:
            raise UsageError(
                f"run {self.run.id} was committed without this call of {wanted.name}; it was not made",
                hint="a changed plan is another run: use another key",
            )
        return None

    def recorded(self, wanted: Wanted) -> RecordedAction | None:
        """Return the last action with this key that was not taken back, whatever became of it.

        One whose process died is settled first, and one in doubt is checked again. The caller holds the lock, and
        has just read the journal.
        """
        history = self._ledger.history
        id = next(reversed(history.calls_of(self.run.id, wanted.key)), "")
        if not id:
            return None
        action = history.actions[id]
        self._refuse_renamed(action, wanted)
        if action.life is Life.OPEN:
            if self._tracker.is_guarded(action):
                return self._same(action, wanted)
            settle_one(self._tracker, self.calls, action)
        if self._unclear(action) is None and not standing(history, action):
            if is_gone(history, action) or id in history.moves.lost:
                return None
        return self._same(action, wanted)

    def _refuse_renamed(self, action: RecordedAction, wanted: Wanted) -> None:
        if action.name != wanted.name:
            raise UsageError(
                f"the key {wanted.key!r} was already used for {action.name} ({action.id}); "
                f"{wanted.name} was not called",
                hint="a key identifies one action of its run",
            )

    def _clear_up(self, action: RecordedAction) -> None:
        """Settle an action in doubt, or raise HandedOver: it must neither be repeated nor taken for granted."""
        if unclear := self._unclear(action):
            raise unclear

    def _unclear(self, action: RecordedAction) -> HandedOver | None:
        """Settle an action in doubt. Return what a human has to be told if that is not possible."""
        history = self._ledger.history
        if is_outside(action) and history.is_half_undone(action.id):
            self._rollbacks.once_more(action.id)
            if history.is_half_undone(action.id):
                return HandedOver(
                    f"it is unknown whether {action.name} ({action.id}) was taken back",
                    hint=f"check it, fix its undo handler, then `takeback undo {action.id}`",
                )
        if in_doubt(history, action) and not self._checked_again(action):
            return HandedOver(
                f"it is unknown whether {action.name} ({action.id}) happened: {action.why}",
                hint=f"check it, then `takeback handover return {self.run.id} --happened {action.id}` (or --did-not)",
            )
        return None

    def _same(self, action: RecordedAction, wanted: Wanted) -> RecordedAction:
        """Return the recorded action. Raise UsageError if the same key was used for other arguments."""
        recorded = action.as_tool.intent
        if recorded and wanted.intent and recorded != wanted.intent:
            raise UsageError(
                f"the key {wanted.key!r} was already used for {action.name} with other arguments ({action.id}); "
                "nothing was called",
                hint="use one key per call; name arguments that differ by attempt with @action(volatile=...)",
            )
        return action

    def _checked_again(self, action: RecordedAction) -> bool:
        """Run the check of a call in doubt again: it may know more by now. Return whether it does."""
        seen = self.calls.look_at(action)
        if seen.in_doubt:
            return False
        changes = told_of(self._ledger.history, action, happened=seen.happened)
        with self.calls.keeping(seen.result) as kept:
            answer = e.ActionTold(action.id, seen.happened, changes, "check", kept.view, kept.full)
            self._ledger.append([answer], self.run.id)
        return True

    def refuse_unready(self, wanted: Wanted) -> None:
        if wanted.effect in _NEEDS:
            needs, hint = _NEEDS[wanted.effect]
            raise UsageError(
                f"{wanted.name} is {wanted.effect}, which needs {needs}; it was not called", hint=hint
            )

    def begin(self, wanted: Wanted, passed: list[e.Event]) -> tuple[Call, str]:
        """Record that an action begins, with the events of the gate. Without an effect nothing is recorded yet."""
        run, history = self.run, self._ledger.history
        attempts = [
            id for id in history.calls_of(run.id, wanted.key) if is_gone(history, history.actions[id])
        ]
        identity = f"key {run.began.key}" if run.began.key else f"run {run.id}"
        key = keys.call_key(
            self._tracker.origin, identity, run.began.generation, wanted.key, 1 + len(attempts)
        )
        data = wanted.plain.get(HANDLERS, {})
        call = Call(wanted.name, wanted.plain["args"], wanted.plain["kwargs"], key, data=data)
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
                paths=self._named(wanted),
            )
            crash_points.reach(BEFORE_RECORD)
            id = self._tracker.begin(began, stream=run.id, before=passed, looking=wanted.looking)
        if wanted.looking:
            (self._beat.add if self._beat else self._tracker.life.show)(id)
        self.open_here.begun.add(id)
        crash_points.reach(RECORDED)
        return call, id

    def _named(self, wanted: Wanted) -> tuple[str, ...]:
        """Return the paths in the workspace that it says it writes, if these are all that it writes there."""
        found = wanted.foreseen
        is_all = bool(wanted.paths) or (wanted.effect is e.Effect.RESTORABLE and not found.commands)
        if not is_all or any(one.somewhere or one.names is not None for one in found.touched):
            return ()
        places = dict.fromkeys(path for one in found.touched for path in (one.path, one.really) if path)
        root = os.path.realpath(self.root) if places else ""
        inside = (relative(os.path.normpath(place), root) for place in places)
        return tuple(text_of(os.fsencode(path)) for path in inside if path not in (None, "."))

    # After

    def result(self, action: RecordedAction) -> Any:
        """Return the result of an action, as the codec of its thread reads it."""
        found = self.calls.result(action)
        if action.life not in (Life.DONE, Life.BACKGROUND):
            # A check or a human told it, so it did not go through the codec yet.
            found = self.codec.plain(found, "what the check found")
        return self.codec.decode(found)

    def end(
        self, id: str, name: str, result: Any, wanted: Wanted | None = None, *, is_plain: bool = False
    ) -> None:
        """Record the result of an action. It happened, even if recording the result fails.

        `wanted` is given if only the caller can end the action. A result that `is_plain` has been through the codec.
        """
        try:
            crash_points.reach(MADE)
            if self._beat:
                self._beat.show()
            value = result if is_plain else self.codec.plain(result, f"what {name} returned")
            with self.calls.keeping(value) as kept:
                self.close(id, wanted, e.Outcome.DONE, "", kept.view, kept.full, happened=True)
        except BaseException as error:
            why = error.message if isinstance(error, UsageError) else f"it was made, and then: {said(error)}"
            if id and self._ledger.refresh().actions[id].life is not Life.OPEN:
                raise
            if id or isinstance(error, UsageError):
                self.close(id, wanted, e.Outcome.FAILED, why, happened=True)
            raise
        crash_points.reach(ENDED)

    def deliver(self, ids: Iterable[str]) -> None:
        """Record that the results of these actions have reached their caller for good."""
        self._ledger.append([e.ActionDelivered(id) for id in ids], self.run.id)

    def live_on(self, id: str) -> None:
        """Record that its tool has answered while processes that it started are still at work."""
        self._tracker.end(id, e.Outcome.DONE, lives_on=True)

    def failed(
        self,
        id: str,
        wanted: Wanted | None,
        why: str,
        seen: CallEvidence,
        *,
        unsure: bool = False,
        outcome: e.Outcome = e.Outcome.FAILED,
    ) -> None:
        """Record that it failed, with what was found out about it; `unsure` is as in Tracker.end."""
        with self.calls.keeping(seen.result) as kept:
            self.close(
                id,
                wanted,
                outcome,
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
        """Record the end of an action; for one without an effect, the whole action."""
        if not id:
            if wanted is not None and happened:
                self._note(wanted, outcome, why, result, full)
            return
        self.open_here.begun.discard(id)
        action = self._ledger.history.actions[id]
        changes = change_of(action, in_doubt=in_doubt) if happened else ()
        if wanted is None or bool(action.began.marks):
            self._tracker.end(id, outcome, why=why, changes=changes, result=result, full=full, unsure=unsure)
            (self._beat.remove if self._beat else self._tracker.life.end)(id)
        else:
            ended = e.ActionEnded(id, outcome, changes, why=why, result=result, full=full)
            self._ledger.append([ended], self.run.id)

    def intend(self, wanted: Wanted, result: Any, why: str = "") -> None:
        """Record an action of a shadow, which is not made, with what stands in for its result."""
        value = self.codec.plain(result, f"what stands in for {wanted.name}")
        with self.calls.keeping(value) as kept:
            self._note(wanted, e.Outcome.DONE, why, kept.view, kept.full)

    def _note(self, wanted: Wanted, outcome: e.Outcome, why: str, result: Any, full: str) -> None:
        shown = self.calls.keep(wanted.plain, wanted.seen).view
        place = (wanted.step, wanted.parent, wanted.key)
        noted = e.ActionNoted(
            wanted.name,
            outcome,
            *place,
            shown,
            result,
            full,
            why,
            wanted.tool,
            wanted.intent,
            wanted.intended,
        )
        self._ledger.append([noted], self.run.id)
