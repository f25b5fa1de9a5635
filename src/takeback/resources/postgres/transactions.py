"""Databases on servers inside runs: a transaction attributed to an action."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from takeback.errors import BackendError, UsageError
from takeback.ports.databases import PreparedDatabase
from takeback.resources.postgres import connection as postgres_connection
from takeback.resources.postgres import guard
from takeback.resources.postgres.guarded import GuardedDatabases
from takeback.system import crash_points, postgres_address

if TYPE_CHECKING:
    from takeback.resources.postgres.inverse import Link

COMMITTED = crash_points.crash_point("database-committed")


class Servers:
    """Databases by address."""

    def __init__(self, places: GuardedDatabases, token: Callable[[str], str]) -> None:
        self._places = places
        self._token = token

    def prepare(self, place: str) -> PreparedDatabase:
        """Prepare a database. Without a guard, what a transaction commits cannot be taken back."""
        with (
            postgres_connection.translated(place, "nothing was begun"),
            postgres_connection.connect(place) as db,
        ):
            found = guard.find(db)
            if found is None:
                name = postgres_address.called(place)[0]
                return PreparedDatabase(name, f"the database {name} is not guarded")
            known = self._places.find(found.id)
            if known is None:
                self._require_reader(db, place)
                known = self._places.add(found.id, place)
            return PreparedDatabase(known.name)

    def _require_reader(self, db: Link, place: str) -> None:
        if not postgres_connection.one(db, "SELECT has_table_privilege('takeback.statement', 'UPDATE')"):
            raise UsageError(
                f"{postgres_address.called(place)[0]} is guarded, but this role cannot access the guard's records; "
                "nothing was begun",
                hint="run `takeback guard ADDRESS` in this workspace, with the role that installed the guard",
            )

    def begin(self, place: str, action: str) -> ServerTransaction:
        return ServerTransaction(postgres_connection.connect(place, token=self._token(action)), place)


class ServerTransaction:
    """An open transaction on a server."""

    def __init__(self, db: Link, place: str) -> None:
        self._db = db
        self._place = place

    @property
    def connection(self) -> Any:
        return self._db

    def commit(self) -> None:
        try:
            with postgres_connection.translated(self._place, "what was committed is recorded"):
                if self._db.info.transaction_status is postgres_address.driver().pq.TransactionStatus.INERROR:
                    raise BackendError("a statement failed earlier, so nothing of the transaction was kept")
                self._db.commit()
        finally:
            self._db.close()
        crash_points.reach(COMMITTED)

    def abort(self) -> None:
        self._db.close()
