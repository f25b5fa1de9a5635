"""Sessions: runs that are not the work of one process, such as those of an agent whose hooks are short processes.

A run of a program is over, or interrupted, when its process is gone. A session has no such process. It is over when
a caller ends it, or when its leading process, that of the agent, has ended.
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
from takeback.engine.sandbox.fence import Containment
from takeback.engine.tracking.recovery import settle_one
from takeback.errors import HandedOver, UsageError
from takeback.system import processes


class Session(Actions):
    """An open run in which any process can begin and end actions."""

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
        """End the session. What it did stays; open actions are settled by looking. A second end does nothing."""
        tracker = self._parts.tracker
        with tracker.lock.held():
            run = tracker.ledger.refresh().runs[self.id]
            if run.life is not Life.OPEN:
                return
            if not run.began.detached:
                raise UsageError(
                    f"run {run.id} belongs to a process, which ends it itself; nothing was changed",
                    hint=f"`takeback undo {run.id}` takes it back when it has ended",
                )
            settle_open(self._parts, run)
            why = "" if error is None else error if isinstance(error, str) else said(error)
            outcome = e.Outcome.DONE if error is None else e.Outcome.FAILED
            tracker.ledger.append([*_ends_of_steps(run), e.RunEnded(outcome, why)], run.id)

    def step(self, name: str, *, ref: str = "") -> Session:
        """Return this session inside the step with `ref`, starting it if needed. Starting a step ends the open ones.

        A step has no body here: what changes in it outside actions is drift, as everywhere in a session.
        """
        ledger = self._parts.tracker.ledger
        with self._parts.tracker.lock.held():
            run = ledger.refresh().runs[self.id]
            self._refuse_ended(run)
            known = next((s for s in reversed(run.steps.values()) if ref and s.ref == ref), None)
            if known is not None:
                return self._in_step(known.id)
            # Not synced by itself: it says nothing about the world, and the next action is synced.
            began = e.StepBegan(redact(name), ref=ref)
            record = ledger.append([*_ends_of_steps(run), began], run.id, durable=False)[-1]
            return self._in_step(record.id)

    def last_step(self) -> Session:
        """Return this session inside the step that was begun last, if there is one."""
        run = self._parts.tracker.ledger.refresh().runs[self.id]
        return self._in_step(next(reversed(run.steps), ""))

    def end_step(self) -> None:
        """End the step that was begun last. What it did stays."""
        ledger = self._parts.tracker.ledger
        with self._parts.tracker.lock.held():
            if ended := _ends_of_steps(ledger.refresh().runs[self.id]):
                ledger.append(ended, self.id, durable=False)

    def held_by(self, containment: Containment | None) -> Session:
        """Return this session for a caller that can run commands in the sandbox: `is_fenced` says which have to."""
        held = Session(self._parts, self.id, self._standing)
        held._containment = containment
        return held

    def _in_step(self, step: str) -> Session:
        return Session(self._parts, self.id, msgspec.structs.replace(self._standing, step=step))

    def _place(self) -> ActionScope:
        return self._standing


def _ends_of_steps(run: Recorded) -> list[e.Event]:
    return [e.StepEnded(step.id, e.Outcome.DONE) for step in run.steps.values() if step.life is Life.OPEN]


def joined(parts: RunParts, began: e.RunBegan, place: ActionScope) -> Session:
    """Return the open session with this key, or begin one. Takes the lock, because two hooks may be the first."""
    tracker = parts.tracker
    with tracker.lock.held():
        history = tracker.ledger.refresh()
        found = history.runs_of_key(began.key) if began.key else ()
        earlier = history.runs[found[-1]] if found else None
        if earlier and earlier.life is Life.OPEN and earlier.began.detached and not earlier.began.thread:
            return attached(parts, earlier, place)
        if earlier and earlier.life is Life.HANDED_OVER:
            raise HandedOver(
                f"run {earlier.id} was handed over: {earlier.why}. Nothing was begun",
                hint=f"a human returns it with `takeback handover return {earlier.id}`",
            )
        if earlier and (earlier.began.thread or not earlier.began.detached):
            kind = "a thread" if earlier.began.thread else "the run of a program"
            raise UsageError(
                f"the key {began.key!r} was already used for {earlier.id}, {kind}; nothing was begun",
                hint="use another key for the session",
            )
        generation = earlier.began.generation + 1 if earlier else 1
        (record,) = tracker.ledger.append([msgspec.structs.replace(began, generation=generation)], "")
        return Session(parts, record.id, place)


def attached(parts: RunParts, run: Recorded, place: ActionScope) -> Session:
    """Return a session for an open run. Actions begun in it are inside the action that its program runs, if any."""
    if run.life is not Life.OPEN:
        raise UsageError(
            f"run {run.id} is {run.life}, so nothing can be begun or ended in it", hint="begin another run"
        )
    history = parts.tracker.ledger.history
    parts.judging.go_on(history, run.id)
    if not run.began.detached:
        inside = (action for action in reversed(history.unended_in(run.id)) if _is_body(action))
        place = ActionScope(parent=next((action.id for action in inside), ""), actor=place.actor)
    return Session(parts, run.id, place)


def _is_body(action: RecordedAction) -> bool:
    """Return whether this is the open body of a run: what its program does outside steps and calls."""
    began = action.began
    return action.life is Life.OPEN and isinstance(began, e.ActionBegan) and not began.key and not began.step


def settle_open(parts: RunParts, run: Recorded) -> list[str]:
    """Settle by looking the actions of a session that will never be ended. Return what was found."""
    tracker, why = parts.tracker, "its end was never told"
    notes = []
    for action in reversed(tracker.ledger.history.unended_in(run.id)):
        if tracker.living(action.id):
            # Processes that it started stay its own even after the session.
            tracker.end(action.id, e.Outcome.FAILED, why=why, unsure=True)
        else:
            notes.append(settle_one(tracker, parts.calls, action, why))
    return notes


def leader(pid: int) -> e.Process | None:
    """Return the process that leads a session, if one is named."""
    if not pid:
        return None
    process = processes.describe(pid)
    if not processes.is_alive(process):
        raise UsageError(f"there is no process {pid} that could lead a session; nothing was begun")
    return process
