"""A database inside a run: one transaction, held until its step is over, and an action of its own."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from takeback import faults
from takeback.core import events as e
from takeback.core.values import said
from takeback.engine.at_work import AlsoAsync
from takeback.engine.steps import innermost
from takeback.errors import ConflictError, UsageError
from takeback.ports import Databases, Transaction

if TYPE_CHECKING:
    from takeback.engine.runs import Run

COMMITTED = faults.crash_point("database-committed")
RECORDED = faults.crash_point("database-recorded")


class Database(AlsoAsync[Any]):
    """A block in which a run writes to a database: `with run.database("app.db") as db: db.execute(…)`.

    What is written is committed when the step ends, or the block where there is no step. An exception before that
    aborts it; afterwards it is taken back with the run. Two blocks of one step for the same database are one
    transaction.
    """

    def __init__(self, run: Run, databases: Databases, place: str) -> None:
        self._run = run
        self._databases = databases
        self._place = place
        self._name = ""
        self._step = ""
        self._parent = ""
        self._action = ""
        self._aborted = ""
        self._transaction: Transaction | None = None
        self._first: Database | None = None
        """The block that began the transaction, where this is a later one."""

    def __enter__(self) -> Any:
        run, step = self._run, innermost(self._run)
        run.at_work.refuse_closed()
        if run._replayed or (step and step.done):
            raise UsageError(
                "what was written to the database in this step is there already; nothing was begun",
                hint="`if not step.done:` around the block, or write in a function and make it with run.call",
            )
        self._name = self._databases.prepare(self._place)
        held = step.held if step else ()
        self._first = next((block for block in held if block._name == self._name), None)
        if self._first is None:
            self._step, self._parent = step.id if step else "", run._innermost()
            # Not looked at: until it is committed there is nothing to see, and others are at work meanwhile.
            self._action = run._tracker.begin(self._began("database"), stream=run.id, looking=False)
            try:
                self._transaction = self._databases.begin(self._place, self._action)
            except BaseException as error:
                self._end(e.Outcome.FAILED, said(error))
                raise
        return self._opened().connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        step = innermost(self._run)
        if error is not None:
            (self._first or self).abort(said(error))
        elif self._first is not None:
            return
        elif step is not None:
            step.held.append(self)
        else:
            self.commit()

    def commit(self) -> None:
        """Make it last. The commit is an action of its own: what changes in that moment is the transaction's."""
        if self._aborted:
            raise ConflictError(
                f"what was written to {self._name} in this step was aborted: {self._aborted}",
                hint="let an error inside a database block leave its step",
            )
        run = self._run
        tracker, beat = run._tracker, run._beat
        commit = tracker.begin(self._began("commit to"), stream=run.id)
        beat.add(commit)
        try:
            self._opened().commit()
        except BaseException as error:
            self._end(e.Outcome.FAILED, said(error), commit)
            raise
        # A sign of life after the commit proves, should this process die now, that it was the commit's.
        tracker.life.show(commit)
        faults.reach(COMMITTED)
        self._end(e.Outcome.DONE, "", commit)
        faults.reach(RECORDED)

    def abort(self, why: str) -> None:
        """Let it never have been."""
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

    def _began(self, what: str) -> e.ActionBegan:
        options = self._run.options
        return e.ActionBegan(
            f"{what} {self._name}",
            e.Effect.TRANSACTIONAL,
            actor=options.actor,
            session=options.session,
            step=self._step,
            parent=self._parent,
        )

    def _end(self, outcome: e.Outcome, why: str = "", commit: str = "") -> None:
        for action in filter(None, (commit, self._action)):
            self._run._tracker.end(action, outcome, why=why)
        if commit:
            self._run._beat.remove(commit)
