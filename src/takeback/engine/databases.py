"""A database inside a run: one transaction, held until its step is over, and an action of its own."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from takeback.core import events as e
from takeback.core.values import said
from takeback.engine.steps import innermost
from takeback.errors import UsageError
from takeback.ports import Databases, Transaction

if TYPE_CHECKING:
    from takeback.engine.runs import Run


class Database:
    """A block in which a run writes to a database: `with run.database("app.db") as db: db.execute(…)`.

    What is written is committed when the step ends, or the block where there is no step. An exception before that
    aborts it; afterwards it is taken back with the run.
    """

    def __init__(self, run: Run, databases: Databases, place: str) -> None:
        self._run = run
        self._databases = databases
        self._place = place
        self._action = ""
        self._transaction: Transaction | None = None

    def __enter__(self) -> Any:
        run, step = self._run, innermost(self._run)
        run.at_work.refuse_closed()
        if run._replayed or (step and step.done):
            raise UsageError(
                "what was written to the database in this step is there already; nothing was begun",
                hint="`if not step.done:` around the block, or write in a function and make it with run.call",
            )
        name = f"database {self._databases.prepare(self._place)}"
        began = e.ActionBegan(
            name,
            e.Effect.TRANSACTIONAL,
            actor=run.options.actor,
            session=run.options.session,
            step=step.id if step else "",
            parent=run._innermost(),
        )
        self._action = run._tracker.begin(began, stream=run.id)
        try:
            self._transaction = self._databases.begin(self._place, self._action)
        except BaseException as error:
            self._end(e.Outcome.FAILED, said(error))
            raise
        return self._transaction.connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        step = innermost(self._run)
        if error is not None:
            self.abort(said(error))
        elif step is not None:
            step.held.append(self)
        else:
            self.commit()

    def commit(self) -> None:
        """Make it last."""
        assert self._transaction is not None
        try:
            self._transaction.commit()
        except BaseException as error:
            self._end(e.Outcome.FAILED, said(error))
            raise
        self._end(e.Outcome.DONE)

    def abort(self, why: str) -> None:
        """Let it never have been."""
        assert self._transaction is not None
        try:
            self._transaction.abort()
        finally:
            self._end(e.Outcome.FAILED, why)

    def _end(self, outcome: e.Outcome, why: str = "") -> None:
        self._run._tracker.end(self._action, outcome, why=why)
