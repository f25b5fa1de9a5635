"""Connections to a server, and the translation of its errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from takeback.errors import BackendError, ConflictError, RefusedError, UsageError
from takeback.system import postgres
from takeback.system.postgres import Translation
from takeback.system.postgres_address import called, first_line, parsed

if TYPE_CHECKING:
    import psycopg

LOCK_MS = 5_000
"""How long an undo waits for locks that another open transaction holds."""

SETTING = "takeback.action"

Row = tuple[Any, ...]


def options(token: str, given: str = "") -> str:
    """Return the PGOPTIONS that attribute every statement of a session to an action."""
    # The server splits this at spaces, and a token contains the name of a folder.
    safe = token.replace("\\", "\\\\").replace(" ", "\\ ")
    return f"{given} -c {SETTING}={safe}".strip()


def connect(dsn: str, *, token: str = "", autocommit: bool = False) -> psycopg.Connection[Row]:
    """Return a connection attributed to an action, or to none, regardless of the environment."""
    with translated(dsn, "nothing was done"):
        given = str(parsed(dsn).get("options") or "")
        return postgres.connect(dsn, autocommit=autocommit, options=options(token, given))


RIGHTS = (
    "taking back rows needs a superuser, or an owner of the tables with "
    "GRANT SET ON PARAMETER session_replication_role, and CREATE on the database"
)


ERRORS = (
    Translation(
        "LockNotAvailable",
        ConflictError,
        "an open transaction holds locks on rows or tables of {name}; {world}",
        "try again when it has ended",
    ),
    Translation(
        "InsufficientPrivilege",
        RefusedError,
        "the role is not allowed to do that in {name} ({text}); {world}",
        RIGHTS,
    ),
    Translation(
        "UndefinedTable InvalidSchemaName",
        UsageError,
        "{name} is not guarded ({text}); {world}",
        "`takeback guard ADDRESS` guards it",
        when=lambda error: "takeback" in first_line(error),
    ),
    Translation(
        "SerializationFailure DeadlockDetected",
        ConflictError,
        "another process wrote to {name} at the same moment; {world}",
        "try again",
    ),
    Translation(
        "OperationalError",
        BackendError,
        "{name} cannot be reached or gave up: {text}; {world}",
        "try again when it answers; to undo an action that wrote elsewhere, name its id",
        retryable=True,
    ),
    Translation("Error", BackendError, "{name} refused: {text}; {world}"),
)


@contextmanager
def translated(dsn: str, world: str) -> Iterator[None]:
    """Raise the driver's errors as ours. `world` says how things are now."""
    with postgres.translated(ERRORS, f"the database {called(dsn)[0]}", world):
        yield


def rows(link: psycopg.Connection[Row], query: str, values: Sequence[Any] | None = None) -> list[Row]:
    """Return the rows of a query. Queries are composed from names that the server itself has quoted."""
    return link.execute(query.encode(), values).fetchall()


def run(link: psycopg.Connection[Row], query: str, values: Sequence[Any] | None = None) -> int:
    """Execute a statement. Return the number of affected rows."""
    return link.execute(query.encode(), values).rowcount


def one(link: psycopg.Connection[Row], query: str, values: Sequence[Any] | None = None) -> Any:
    """Return the first value of the first row."""
    found = rows(link, query, values)
    return found[0][0] if found else None
