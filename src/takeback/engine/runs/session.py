"""Sessions: runs that are not the work of one process, as those of an agent whose hooks are short processes.

A run of a program is over, or interrupted, when its process is gone. A session has no such process. It is over when
somebody says so, or when the process that was named as leading it, that of the agent, has ended.
"""

from __future__ import annotations

import msgspec

from takeback.core import events as e
from takeback.core.entities import RecordedAction
from takeback.core.entities import RecordedRun as Recorded
from takeback.core.lifecycle import Life
from takeback.core.redact import redact
from takeback.core.values import said
from takeback.engine.runs.actions import Actions, ActionScope
from takeback.engine.runs.parts import RunParts
from takeback.engine.tracking.recovery import settle_one
from takeback.errors import HandedOver, UsageError
from takeback.system import processes


class Session(Actions):
    """An open run, held from any process: for the actions that are begun and ended there."""

    def __init__(self, parts: RunParts, id: str, place: ActionScope) -> None:
        super().__init__(parts)
        self._id = id
        self._standing = place

    @property
    def id(self) -> str:
        """The id of its run."""
        return self._id

    def __repr__(self) -> str:
        return f"<Session {self.id}>"

    def end(self, *, error: BaseException | str | None = None) -> None:
        """Say that it is over. What it did stays; an action that has no end is settled by looking. Twice is once."""
        tracker = self._parts.tracker
        with tracker.lock.held():
            run = tracker.ledger.refresh().runs[self.id]
            if run.life is not Life.OPEN:
                return
            if not run.began.detached:
                raise UsageError(
                    f"run {run.id} is the work of a process, which ends it; nothing was changed",
                    hint=f"`takeback undo {run.id}` takes it back when it has ended",
                )
            settle_open(self._parts, run)
            why = "" if error is None else error if isinstance(error, str) else said(error)
            outcome = e.Outcome.DONE if error is None else e.Outcome.FAILED
            tracker.ledger.append([*_ends_of_steps(run), e.RunEnded(outcome, why)], run.id)

    def step(self, name: str, *, ref: str = "") -> Session:
        """The session in a step of its own: that with this `ref`, or a new one, with which those before it are over.

        A step has no body here: what changes in it outside of actions is drift, as everywhere in a session.
        """
        ledger = self._parts.tracker.ledger
        with self._parts.tracker.lock.held():
            run = ledger.refresh().runs[self.id]
            self._refuse_ended(run)
            known = next((s for s in reversed(run.steps.values()) if ref and s.ref == ref), None)
            if known is not None:
                return self._in_step(known.id)
            # Not synced by itself: it says nothing about the world, and the next action that begins is.
            began = e.StepBegan(redact(name), ref=ref)
            record = ledger.append([*_ends_of_steps(run), began], run.id, durable=False)[-1]
            return self._in_step(record.id)

    def last_step(self) -> Session:
        """The session in the step that was begun last, if there is one."""
        run = self._parts.tracker.ledger.refresh().runs[self.id]
        return self._in_step(next(reversed(run.steps), ""))

    def end_step(self) -> None:
        """Say that the step that was begun last is over. What it did stays."""
        ledger = self._parts.tracker.ledger
        with self._parts.tracker.lock.held():
            if ended := _ends_of_steps(ledger.refresh().runs[self.id]):
                ledger.append(ended, self.id, durable=False)

    def _in_step(self, step: str) -> Session:
        return Session(self._parts, self.id, msgspec.structs.replace(self._standing, step=step))

    def _place(self) -> ActionScope:
        return self._standing


def _ends_of_steps(run: Recorded) -> list[e.Event]:
    return [e.StepEnded(step.id, e.Outcome.DONE) for step in run.steps.values() if step.life is Life.OPEN]


def joined(parts: RunParts, began: e.RunBegan, place: ActionScope) -> Session:
    """The open session with the key of this one, or this one. Under the lock: two hooks may be the first."""
    tracker = parts.tracker
    with tracker.lock.held():
        history = tracker.ledger.refresh()
        found = history.keyed_runs.get(began.key, ()) if began.key else ()
        earlier = history.runs[found[-1]] if found else None
        if earlier and earlier.life is Life.OPEN and earlier.began.detached:
            return attached(parts, earlier, place)
        if earlier and earlier.life is Life.HANDED_OVER:
            raise HandedOver(
                f"run {earlier.id} was handed over: {earlier.why}. Nothing was begun",
                hint=f"a human gives it back with `takeback handover return {earlier.id}`",
            )
        if earlier and not earlier.began.detached:
            raise UsageError(
                f"the key {began.key!r} is that of {earlier.id}, the run of a program; nothing was begun",
                hint="give the session a key of its own",
            )
        generation = earlier.began.generation + 1 if earlier else 1
        (record,) = tracker.ledger.append([msgspec.structs.replace(began, generation=generation)], "")
        return Session(parts, record.id, place)


def attached(parts: RunParts, run: Recorded, place: ActionScope) -> Session:
    """An open run, from here. What is begun here is inside of what its program is doing, if it has one."""
    if run.life is not Life.OPEN:
        raise UsageError(
            f"run {run.id} is {run.life}, so nothing can be begun or ended in it", hint="begin another run"
        )
    history = parts.tracker.ledger.history
    parts.judging.go_on(history.actions[id] for id in run.actions)
    if not run.began.detached:
        inside = (a for id in reversed(run.actions) if _is_body(a := history.actions[id]))
        place = ActionScope(parent=next((action.id for action in inside), ""), actor=place.actor)
    return Session(parts, run.id, place)


def _is_body(action: RecordedAction) -> bool:
    """Whether it stands for all that a program does in its run, outside of steps and calls."""
    began = action.began
    return action.life is Life.OPEN and isinstance(began, e.ActionBegan) and not began.key and not began.step


def settle_open(parts: RunParts, run: Recorded) -> list[str]:
    """Judge the actions of a session that nobody is going to end, by looking; says what was found."""
    tracker, why = parts.tracker, "its end was never told"
    found = [tracker.ledger.history.actions[id] for id in reversed(run.actions)]
    notes = []
    for action in [action for action in found if action.life in (Life.OPEN, Life.BACKGROUND)]:
        if tracker.living(action.id):
            # What it started stays its own after the session, too.
            tracker.end(action.id, e.Outcome.FAILED, why=why, unsure=True)
        else:
            notes.append(settle_one(tracker, parts.calls, action, why))
    return notes


def leader(pid: int) -> e.Process | None:
    """The process that leads a session, if one is named."""
    if not pid:
        return None
    process = processes.describe(pid)
    if not processes.is_alive(process):
        raise UsageError(f"there is no process {pid} that could lead a session; nothing was begun")
    return process
