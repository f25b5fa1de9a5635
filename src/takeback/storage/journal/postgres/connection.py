"""Connections to the server that holds a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from takeback.storage.journal.postgres import schema
from takeback.storage.journal.postgres.errors import ERRORS, NOTHING_RECORDED, explain, is_lost
from takeback.system.postgres import connect, translated
from takeback.system.postgres_address import called, driver

if TYPE_CHECKING:
    import psycopg

    Db = psycopg.Connection[tuple[Any, ...]]

BUSY_S = 10.0
SILENCE_S = 15
"""A connection without an answer from the server for this long counts as lost."""
ABANDONED_S = 30
"""The server rolls back a transaction that stays idle for this long, and releases its locks."""

# The transaction of a lost connection may still hold the lock, so waiting for it is limited. An administrator may
# ask for more than `on`, such as confirmation by a second server, but not for less.
_SETTINGS = (
    "SET client_encoding = 'UTF8'; SET lock_timeout = {lock_ms}; "
    "SET idle_in_transaction_session_timeout = {idle_ms}; "
    "SET default_transaction_isolation = 'read committed'; "
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)


class Address:
    """The address of a store. It may contain a password, so it is never shown in full."""

    def __init__(self, dsn: str, *, busy_s: float = BUSY_S) -> None:
        self._dsn = dsn
        self._busy_s = busy_s
        database, host = called(dsn)
        self.name = f"the database {database}" + (f" on {host}" if host and not host.startswith("/") else "")

    def __repr__(self) -> str:
        return f"<Address {self.name}>"

    def check(self) -> None:
        """Raise BackendError if the store cannot be used; the error says why."""
        with translated(ERRORS, self.name, NOTHING_RECORDED):
            self.connect().close()

    @contextmanager
    def visiting(self) -> Iterator[Db]:
        """Yield a connection that changes nothing, and does not even create tables. Raise BackendError."""
        with translated(ERRORS, self.name, "Nothing was changed in it"), self._connect() as db:
            yield db

    def connect(self) -> Db:
        """Return a new connection, creating or migrating the tables. Raise the driver's error if a retry may help."""
        pg = driver()
        try:
            db = self._connect()
            try:
                settings = _SETTINGS.format(lock_ms=int(self._busy_s * 1000), idle_ms=ABANDONED_S * 1000)
                db.execute(settings.encode())
                schema.prepare(db, self.name)
            except BaseException:
                db.close()
                raise
        except pg.Error as error:
            if is_lost(error):
                raise
            raise explain(error, self.name) from error
        return db

    def _connect(self) -> Db:
        limits = {
            "keepalives_idle": SILENCE_S // 3,
            "keepalives_interval": SILENCE_S // 3,
            "keepalives_count": 2,
            "tcp_user_timeout": SILENCE_S * 1000,
            "application_name": "takeback",
        }
        return connect(self._dsn, autocommit=True, limits=limits)
