"""The one connection that a process has to a workspace in a store."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from takeback.errors import BackendError, UsageError
from takeback.storage.journal.postgres import statements
from takeback.storage.journal.postgres.connection import Address
from takeback.storage.journal.postgres.errors import explain, is_lost
from takeback.system import at_fork
from takeback.system.postgres_address import driver

if TYPE_CHECKING:
    import psycopg

    Db = psycopg.Connection[tuple[Any, ...]]


T = TypeVar("T")


class PostgresSession(at_fork.ConnectionHolder):
    """A connection that is re-established when it is lost, for one thread at a time."""

    def __init__(
        self,
        address: Address,
        workspace: str,
        patience_s: float,
        renewed: Callable[[Db], None],
        forked: Callable[[], None],
    ) -> None:
        """`renewed` is called first with each new connection; `forked` is called in a forked child."""
        self.address = address
        self.workspace = workspace
        self.id = 0
        """The number of the workspace."""
        # Reentrant, so that a signal handler that appends while its thread appends gets an error and does not
        # deadlock.
        self.lock = threading.RLock()
        self.error = driver().Error
        self._patience_s = patience_s
        self._renewed = renewed
        self._forked = forked
        self._pid = os.getpid()
        self._user = 0
        self._is_closed = False
        self._db: Db | None = None
        self._away_since: float | None = None

    def patience(self) -> Backoff:
        """Return a back-off that counts from when the server went away, once for all waiting threads."""
        return Backoff(self._patience_s, self._away_since)

    def held(self, work: Callable[[], T]) -> T:
        """Run `work` with the connection: one thread at a time, and not nested.

        No statement that an interrupt could skip stands between taking the lock and the `finally` that releases it.
        """
        self.refuse_nesting()
        me = threading.get_ident()
        with self.lock:
            self._user = me
            try:
                return work()
            finally:
                self._user = 0

    def refuse_nesting(self, *, leads: bool = False) -> None:
        """Raise BackendError if this thread is already using the journal. `leads` says that it leads the appends."""
        if leads or self._user == threading.get_ident():
            raise BackendError(
                "this thread is already using the journal. Nothing was recorded",
                hint="do not use the journal in a signal handler; set a flag there instead",
                retryable=True,
            )

    def ask(self, work: Callable[[Db], T]) -> T:
        """Query the server, again if the connection is lost: a query changes nothing."""
        patience = self.patience()
        return self.held(lambda: self._asked(work, patience))

    def _asked(self, work: Callable[[Db], T], patience: Backoff) -> T:
        while True:
            try:
                return work(self.connection())
            except self.error as error:
                lost = is_lost(error)
                if lost:
                    self.disconnect()
                if not lost or not patience.again():
                    raise explain(error, self.address.name, "Nothing was changed in it") from error
            except BaseException:
                self.disconnect()  # an interrupt may leave an unread answer on the connection
                raise

    def connection(self) -> Db:
        """Return the connection, making it if there is none. Only inside `held`."""
        if self._is_closed:
            raise UsageError("the journal is closed; nothing was recorded")
        if self._db is None:
            self._away_since = self._away_since or time.monotonic()
            db = self.address.connect()
            try:
                self.id = statements.workspace(db, self.workspace)
                self._renewed(db)
            except BaseException:
                db.close()
                raise
            self._db = db
            self._away_since = None
        return self._db

    def roll_back(self, db: Db) -> None:
        try:
            statements.roll_back(db)
        except self.error:
            self.disconnect()  # which also ends the transaction

    def disconnect(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close()

    def open(self) -> None:
        self.ask(lambda _: None)
        at_fork.watch(self)

    def close(self) -> None:
        at_fork.unwatch(self)
        self._is_closed = True
        self.disconnect()

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def hold_still(self) -> None:
        """Close the connection before a fork, so that the child does not inherit it."""
        self.lock.acquire()
        self.disconnect()

    def go_on(self) -> None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._user = 0  # it was a thread of the parent
            self._forked()
        self.lock.release()


class Backoff:
    """Sleeps a little longer each time, until the time is up."""

    FIRST_S, LONGEST_S = 0.02, 0.5

    def __init__(self, limit_s: float, since: float | None = None) -> None:
        """`since` is when the server went away, by `time.monotonic`, if that was earlier than now."""
        self._until = (time.monotonic() if since is None else since) + limit_s
        self._next_s = self.FIRST_S

    def again(self) -> bool:
        """Sleep a while. Return False if the time is up."""
        if time.monotonic() >= self._until:
            return False
        time.sleep(self._next_s)
        self._next_s = min(self.LONGEST_S, self._next_s * 2)
        return True
