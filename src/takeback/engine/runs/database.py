"""A database inside a run: one transaction, held until its step is over, and an action of its own."""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import Any

import msgspec

from takeback.core import events as e
from takeback.core import keys
from takeback.core.ids import seq_of
from takeback.core.policy import Decision
from takeback.core.rules import Ruling
from takeback.core.values import said
from takeback.engine.gate.wanted import Wanted
from takeback.engine.runs.in_flight import AlsoAsync
from takeback.engine.runs.recorded_calls import change_of, standing
from takeback.engine.runs.step import RunContext
from takeback.errors import ConflictError, HandedOver, TakebackError, UsageError
from takeback.ports.databases import Transaction
from takeback.system import crash_points

COMMITTED = crash_points.crash_point("database-committed")
RECORDED = crash_points.crash_point("database-recorded")


class Database(AlsoAsync[Any]):
    """A block in which a run writes to a database: `with run.database("app.db") as db: db.execute(…)`.

    What is written is committed when the step ends, or the block if there is no step. An exception before that
    aborts it; afterwards it is taken back with the run. Two blocks of one step for the same database are one
    transaction.
    """

    def __init__(self, run: RunContext, place: str) -> None:
        self._run = run
        self._databases = run.parts.databases
        self._place = place
        self._name = ""
        self._unguarded = ""
        """Why a commit cannot be taken back."""
        self._step = ""
        self._parent = ""
        self._action = ""
        self._aborted = ""
        self._transaction: Transaction | None = None
        self._first: Database | None = None
        """The block that began the transaction, if this is a later one."""

    def __enter__(self) -> Any:
        run, step = self._run, self._run.step
        run.at_work.refuse_closed()
        if run.replayed or (step and step.done):
            raise UsageError(
                "what this step wrote to the database is already there; nothing was begun",
                hint="put `if not step.done:` around the block, or write in a function called by run.call",
            )
        prepared = self._databases.prepare(self._place)
        self._name, self._unguarded = prepared.name, prepared.unguarded
        if self._unguarded:
            self._be_careful(step.path if step else "")
        held = step.held if step else ()
        self._first = next((block for block in held if block._name == self._name), None)
        if self._first is None:
            self._step, self._parent = step.id if step else "", run.action
            # Without a mark: until the commit there is nothing to see, and others are at work meanwhile.
            self._action = run.tracker.begin(self._began("database"), stream=run.id, looking=False)
            try:
                self._transaction = self._databases.begin(self._place, self._action)
            except BaseException as error:
                self._end(e.Outcome.FAILED, said(error))
                raise
        return self._opened().connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        step = self._run.step
        if error is not None:
            (self._first or self).abort(said(error))
        elif self._first is not None:
            return
        elif step is not None:
            step.held.append(self)
        else:
            self.commit()

    def _be_careful(self, step: str) -> None:
        """Warn about an unguarded database before anything is written; raise if it must not be written."""
        run = self._run
        if run.options.began.autopilot:
            why = f"{self._unguarded}, so what is committed there cannot be taken back"
            hint = "guard it with `takeback guard ADDRESS`"
            decision = Decision(Ruling.DENY, "autopilot", why, "run it without autopilot", hint)
            wanted = Wanted(f"database {self._name}", e.Effect.TRANSACTIONAL)
            run.parts.gate.refuse(run.id, wanted, decision)
        history = run.ledger.history
        recorded = history.runs[run.id]
        for id in recorded.actions:
            action = history.actions[id]
            inside = action.as_tool.step
            if seq_of(id) > seq_of(run.body) or action.name != f"commit to {self._name}":
                continue
            where = recorded.steps[inside].name if inside else ""
            if where == step and standing(history, action):
                raise HandedOver(
                    f"an earlier attempt reached {action.name} ({id}), which cannot be taken back: "
                    f"{self._unguarded}. So it is not written again",
                    hint=f"check it. If it did not happen, `takeback handover return {run.id} --did-not {id}`; if it "
                    "did, finish by hand, or begin a run with another key",
                )
        warnings.warn(
            f"{self._unguarded}: what is written to it is kept only if its step succeeds, and cannot be taken back "
            "once it is committed. `takeback guard ADDRESS` changes that",
            stacklevel=3,
        )

    def commit(self) -> None:
        """Commit, as an action of its own: what changes in that moment belongs to the transaction."""
        if self._aborted:
            raise ConflictError(
                f"what was written to {self._name} in this step was aborted: {self._aborted}",
                hint="let an error inside a database block leave its step",
            )
        run = self._run
        tracker, beat = run.tracker, run.beat
        commit = tracker.begin(self._began("commit to", lasting=True), stream=run.id)
        beat.add(commit)
        try:
            self._opened().commit()
        except BaseException as error:
            # If the server answered, it refused. Otherwise it may have committed nevertheless.
            answered = isinstance(error, TakebackError) and not getattr(error, "retryable", False)
            self._end(e.Outcome.FAILED, said(error), commit, in_doubt=not answered)
            raise
        # If this process dies now, a sign of life after the commit proves that the changes are the commit's.
        tracker.life.show(commit)
        crash_points.reach(COMMITTED)
        self._end(e.Outcome.DONE, "", commit, happened=True)
        crash_points.reach(RECORDED)

    def abort(self, why: str) -> None:
        """Abort the transaction."""
        if self._aborted:
            return
        self._aborted = why or "it was stopped"
        try:
            self._opened().abort()
        finally:
            self._end(e.Outcome.FAILED, why)

    def _opened(self) -> Transaction:
        transaction = (self._first or self)._transaction
        assert transaction is not None
        return transaction

    def _began(self, what: str, *, lasting: bool = False) -> e.ActionBegan:
        run = self._run
        began = e.ActionBegan(
            f"{what} {self._name}",
            e.Effect.TRANSACTIONAL,
            actor=run.options.began.actor,
            session=run.options.began.session,
            step=self._step,
            parent=self._parent,
        )
        if not (lasting and self._unguarded):
            return began
        # From here on it is an irreversible call to another system.
        key = keys.call_key(run.tracker.origin, run.id, 1, began.name, run.ledger.history.seq)
        return msgspec.structs.replace(
            began, effect=e.Effect.IRREVERSIBLE, call_key=key, uncaptured=(self._unguarded,)
        )

    def _end(
        self,
        outcome: e.Outcome,
        why: str = "",
        commit: str = "",
        *,
        happened: bool = False,
        in_doubt: bool = False,
    ) -> None:
        tracker = self._run.tracker
        if commit:
            recorded = tracker.ledger.history.actions[commit]
            changes = change_of(recorded, in_doubt=in_doubt) if happened or in_doubt else ()
            tracker.end(commit, outcome, why=why, changes=changes)
        tracker.end(self._action, outcome, why=why)
        if commit:
            self._run.beat.remove(commit)
