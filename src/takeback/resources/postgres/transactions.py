"""Databases of servers inside runs: a transaction in the name of an action."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from takeback import addresses, faults
from takeback.errors import BackendError, UsageError
from takeback.ports import Prepared
from takeback.resources.postgres import guard, link
from takeback.resources.postgres.places import Places

if TYPE_CHECKING:
    from takeback.resources.postgres.inverse import Link

COMMITTED = faults.crash_point("database-committed")


class Servers:
    """Databases by address."""

    def __init__(self, places: Places, token: Callable[[str], str]) -> None:
        self._places = places
        self._token = token

    def prepare(self, place: str) -> Prepared:
        """Without a guard it is a transaction all the same; what it has committed cannot be taken back."""
        with link.translated(place, "nothing was begun"), link.connect(place) as db:
            found = guard.find(db)
            if found is None:
                name = addresses.called(place)[0]
                return Prepared(name, f"the database {name} is not under guard")
            known = self._places.find(found.id)
            if known is None:
                self._require_reader(db, place)
                known = self._places.add(found.id, place)
            return Prepared(known.name)

    def _require_reader(self, db: Link, place: str) -> None:
        if not link.one(db, "SELECT has_table_privilege('takeback.statement', 'UPDATE')"):
            raise UsageError(
                f"{addresses.called(place)[0]} is guarded, but this workspace does not know how to reach its guard; "
                "nothing was begun",
                hint="`takeback guard ADDRESS` in this workspace, as the role that guards it",
            )

    def begin(self, place: str, action: str) -> Session:
        return Session(link.connect(place, token=self._token(action)), place)


class Session:
    """An open transaction of a server."""

    def __init__(self, db: Link, place: str) -> None:
        self._db = db
        self._place = place

    @property
    def connection(self) -> Any:
        return self._db

    def commit(self) -> None:
        try:
            with link.translated(self._place, "what of it lasted is recorded"):
                if self._db.info.transaction_status is addresses.driver().pq.TransactionStatus.INERROR:
                    raise BackendError("a statement failed before, so nothing of the transaction lasts")
                self._db.commit()
        finally:
            self._db.close()
        faults.reach(COMMITTED)

    def abort(self) -> None:
        self._db.close()
