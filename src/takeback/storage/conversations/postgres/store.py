"""Conversations in the schema takeback_conversations of the database that has the journal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from takeback.errors import BackendError, FormatTooNew
from takeback.storage.conversations.shared_commit import Writing
from takeback.storage.conversations.tables import Query, Row, TableConversations
from takeback.storage.journal.postgres.connection import Address
from takeback.storage.journal.postgres.session import PostgresSession
from takeback.system.postgres_address import driver, first_line

if TYPE_CHECKING:
    import psycopg

    Db = psycopg.Connection[tuple[Any, ...]]

T = TypeVar("T")

FORMAT = 1
PATIENCE_S = 30.0

# Any number that no other program uses for an advisory lock; this one spells "TAKE" and "CONV".
_LOCK = 0x54414B45434F4E56
_VERSION = b"SELECT version FROM takeback_conversations.format"
_IS_THERE = (
    b"SELECT EXISTS (SELECT FROM pg_catalog.pg_tables "
    b"WHERE schemaname = 'takeback_conversations' AND tablename = 'format')"
)
# Ids are compared by their bytes, whatever the language of the database.
_TABLES = b"""
CREATE SCHEMA takeback_conversations;
CREATE TABLE takeback_conversations.format (version integer NOT NULL);
INSERT INTO takeback_conversations.format VALUES (1);
CREATE TABLE takeback_conversations.threads (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    workspace text NOT NULL, name text NOT NULL, epoch bigint NOT NULL, UNIQUE (workspace, name));
CREATE TABLE takeback_conversations.items (thread bigint NOT NULL, name bytea NOT NULL, type text NOT NULL,
    body bytea NOT NULL, PRIMARY KEY (thread, name));
CREATE TABLE takeback_conversations.snapshots (thread bigint NOT NULL, space text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL, parent text NOT NULL, run text NOT NULL, lacks bytea NOT NULL,
    about_type text NOT NULL, about bytea NOT NULL, body_type text NOT NULL, body bytea NOT NULL, refs bytea NOT NULL,
    PRIMARY KEY (thread, space, id));
CREATE TABLE takeback_conversations.writes (thread bigint NOT NULL, space text COLLATE "C" NOT NULL,
    snapshot text COLLATE "C" NOT NULL, task text COLLATE "C" NOT NULL, idx integer NOT NULL,
    path text COLLATE "C" NOT NULL, channel text NOT NULL, type text NOT NULL, body bytea NOT NULL,
    PRIMARY KEY (thread, space, snapshot, task, idx));
"""


class PostgresConversations(TableConversations):
    """Conversations on a server. A write that a lost connection cut short is repeated: that changes nothing."""

    def __init__(self, dsn: str, workspace: str) -> None:
        super().__init__(workspace=workspace, schema="takeback_conversations.", lock=" FOR SHARE")
        address = Address(dsn)
        self._name = address.name
        self._session = PostgresSession(address, workspace, PATIENCE_S, self._prepare, lambda: None)
        self._session.open()

    def _prepare(self, db: Db) -> None:
        version = _version(db)
        if version == FORMAT:
            return
        self._refuse(version)
        pg = driver()
        try:
            with db.transaction():
                db.execute(b"SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                version = _version(db)  # again: another process may have been first
                self._refuse(version)
                if version < FORMAT:
                    db.execute(_TABLES)
        except (pg.errors.InsufficientPrivilege, pg.errors.ReadOnlySqlTransaction) as error:
            raise BackendError(
                f"{self._name} has no tables for conversations yet, and this role may not create them: "
                f"{first_line(error)}. Nothing was stored",
                hint="open the store once with a role that may CREATE in this database",
            ) from error

    def _refuse(self, version: int) -> None:
        if version > FORMAT:
            raise FormatTooNew(
                f"the conversations in {self._name} are in format {version}; this program reads up to {FORMAT}. "
                "Nothing was changed",
                hint="upgrade Takeback",
            )

    def _commit(self, group: Sequence[Writing]) -> None:
        """Send everything at once: one exchange with the server, and one sync there, for the whole group."""

        def work(db: Db) -> list[bool]:
            if len(group) == 1 and len(group[0].statements) == 2:
                text, values = group[0].statements[1]  # a transaction by itself
                return [db.execute(_given(text), values).rowcount > 0 or self._holds_now(db, group[0])]
            with db.pipeline():  # the server makes one transaction of all that is sent before a sync
                sent = [
                    [db.execute(_given(text), values) for text, values in writing.statements[1:]]
                    for writing in group
                ]
            # Each statement changes something only if the token holds, so one that did answers the question. If none
            # did, the token may have ceased to hold in between: that is found by the next write.
            return [
                any(cursor.rowcount > 0 for cursor in cursors) or self._holds_now(db, writing)
                for writing, cursors in zip(group, sent, strict=True)
            ]

        for writing, holds in zip(group, self._session.ask(work), strict=True):
            writing.end(holds=holds)

    def _holds_now(self, db: Db, writing: Writing) -> bool:
        text, token = writing.statements[0]
        return db.execute(_given(text), token).fetchone() is not None

    def _ask(self, work: Callable[[Query], T]) -> T:
        return self._session.ask(lambda db: self._within(db, work, b"REPEATABLE READ, READ ONLY"))

    def _alone(self, work: Callable[[Query], T]) -> T:
        return self._session.ask(lambda db: self._within(db, work, b"READ COMMITTED"))

    def _within(self, db: Db, work: Callable[[Query], T], isolation: bytes) -> T:
        def query(text: str, given: Sequence[object]) -> list[Row]:
            cursor = db.execute(_given(text), given)
            return cursor.fetchall() if cursor.description else []

        with db.transaction():
            db.execute(b"SET TRANSACTION ISOLATION LEVEL " + isolation)
            return work(query)

    def close(self) -> None:
        self._session.close()


def threads_there(dsn: str, workspace: str) -> list[str]:
    """Return the names of a workspace's threads on a server. This creates nothing there."""
    with Address(dsn).visiting() as db:
        if _version(db) < 1:
            return []
        query = b"SELECT name FROM takeback_conversations.threads WHERE workspace = %s"
        return [row[0] for row in db.execute(query, (workspace,))]


@lru_cache(maxsize=256)
def _given(text: str) -> bytes:
    return text.replace("?", "%s").encode()


def _version(db: Db) -> int:
    """Return the format of the tables; 0 if there are none."""
    row = db.execute(_IS_THERE).fetchone()
    found = db.execute(_VERSION).fetchone() if row and row[0] else None
    return int(found[0]) if found else 0
