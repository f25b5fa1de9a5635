"""Notification of the next event, instead of polling."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from takeback.storage.journal.postgres import statements
from takeback.storage.journal.postgres.connection import Address
from takeback.storage.journal.postgres.errors import explain, is_lost
from takeback.storage.journal.postgres.session import Backoff
from takeback.system.postgres_address import driver

if TYPE_CHECKING:
    import psycopg

    Db = psycopg.Connection[tuple[Any, ...]]

SLICE_S = 5.0
"""Without a notification for this long, look at the journal anyway: notifications can get lost."""


class Bell:
    """Waits for events of one workspace, on its own connection. For one thread at a time."""

    def __init__(self, address: Address, workspace: str) -> None:
        self._address = address
        self._name = workspace
        self._db: Db | None = None
        self._id = 0

    def wait(self, after: int, timeout_s: float) -> bool:
        """Wait for an event after this one. Return True as soon as there is one, False on timeout."""
        until = time.monotonic() + timeout_s
        patience = Backoff(timeout_s)
        while True:
            try:
                if self._wait(after, until):
                    return True
                if time.monotonic() >= until:
                    return False
            except driver().Error as error:
                self.close()
                if not is_lost(error) or not patience.again():
                    raise explain(error, self._address.name, "Nothing was changed in it") from error

    def _wait(self, after: int, until: float) -> bool:
        """Listen first, then announce that we listen, then look: so no event is missed in between."""
        db = self._connection()
        left_s = min(SLICE_S, until - time.monotonic())
        if left_s > 0:
            statements.awaited(db, self._id, left_s + 1)
        if statements.head(db, self._id).count > after:
            return True
        if left_s <= 0:
            return False
        for _ in db.notifies(timeout=left_s, stop_after=1):
            break
        return statements.head(db, self._id).count > after

    def _connection(self) -> Db:
        if self._db is None:
            db = self._address.connect()
            self._id = statements.workspace(db, self._name)
            db.execute(f'LISTEN "{statements.CHANNEL}_{self._id}"'.encode())
            self._db = db
        return self._db

    def close(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close()
