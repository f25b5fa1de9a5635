"""Connections to a server, and its errors in our words."""

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
"""How long an undo waits for what somebody's open transaction holds."""

SETTING = "takeback.action"

Row = tuple[Any, ...]


def options(token: str, given: str = "") -> str:
    """The PGOPTIONS with which every statement of a session is known as an action's."""
    # The server splits this at spaces; a token has the name of a folder in it.
    safe = token.replace("\\", "\\\\").replace(" ", "\\ ")
    return f"{given} -c {SETTING}={safe}".strip()


def connect(dsn: str, *, token: str = "", autocommit: bool = False) -> psycopg.Connection[Row]:
    """A connection, in the name of an action or of nobody, whatever the environment says."""
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
        "somebody's open transaction holds rows or tables of {name}; {world}",
        "try again when it has ended",
    ),
    Translation(
        "InsufficientPrivilege",
        RefusedError,
        "the role may not do that in {name} ({text}); {world}",
        RIGHTS,
    ),
    Translation(
        "UndefinedTable InvalidSchemaName",
        UsageError,
        "{name} is not under guard ({text}); {world}",
        "`takeback guard ADDRESS` guards it",
        when=lambda error: "takeback" in first_line(error),
    ),
    Translation(
        "SerializationFailure DeadlockDetected",
        ConflictError,
        "somebody else wrote to {name} at that moment; {world}",
        "try again",
    ),
    Translation(
        "OperationalError",
        BackendError,
        "{name} cannot be reached or gave up: {text}; {world}",
        "try again when it answers; an action that wrote elsewhere is taken back by its id",
        retryable=True,
    ),
    Translation("Error", BackendError, "{name} refused: {text}; {world}"),
)


@contextmanager
def translated(dsn: str, world: str) -> Iterator[None]:
    """Raise errors of the driver as ours. `world` says how things are now."""
    with postgres.translated(ERRORS, f"the database {called(dsn)[0]}", world):
        yield


def rows(link: psycopg.Connection[Row], query: str, values: Sequence[Any] | None = None) -> list[Row]:
    """What a query gives. Queries are put together from names that the server itself has quoted."""
    return link.execute(query.encode(), values).fetchall()


def run(link: psycopg.Connection[Row], query: str, values: Sequence[Any] | None = None) -> int:
    """Carry out a statement; gives how many rows it was about."""
    return link.execute(query.encode(), values).rowcount


def one(link: psycopg.Connection[Row], query: str, values: Sequence[Any] | None = None) -> Any:
    """The first value of the first row."""
    found = rows(link, query, values)
    return found[0][0] if found else None
