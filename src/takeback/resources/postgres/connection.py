"""Connections to a server, and its errors in our words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from takeback.errors import BackendError, ConflictError, RefusedError, TakebackError, UsageError
from takeback.system.postgres_address import called, driver, first_line, parsed

if TYPE_CHECKING:
    import psycopg

CONNECT_S = 5
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
    pg = driver()
    with translated(dsn, "nothing was done"):
        found = parsed(dsn)
        given = str(found.get("options") or "")
        link: psycopg.Connection[Row] = pg.connect(
            dsn,
            options=options(token, given),
            connect_timeout=found.get("connect_timeout", CONNECT_S),
            autocommit=autocommit,
        )
    return link


@contextmanager
def translated(dsn: str, world: str) -> Iterator[None]:
    """Errors of the driver as ours. `world` says how things are now."""
    pg = driver()
    try:
        yield
    except pg.Error as error:
        raise as_ours(error, dsn, world) from error


def as_ours(error: Any, dsn: str, world: str) -> TakebackError:
    """What to tell about an error of the driver; no secret of the address is in it."""
    pg = driver()
    name = f"the database {called(dsn)[0]}"
    text = first_line(error)
    if isinstance(error, pg.errors.LockNotAvailable):
        return ConflictError(
            f"somebody's open transaction holds rows or tables of {name}; {world}",
            hint="try again when it has ended",
        )
    if isinstance(error, pg.errors.InsufficientPrivilege):
        return RefusedError(f"the role may not do that in {name} ({text}); {world}", hint=RIGHTS)
    if isinstance(error, pg.errors.UndefinedTable | pg.errors.InvalidSchemaName) and "takeback" in text:
        return UsageError(
            f"{name} is not under guard ({text}); {world}", hint="`takeback guard ADDRESS` guards it"
        )
    if isinstance(error, pg.errors.SerializationFailure | pg.errors.DeadlockDetected):
        return ConflictError(f"somebody else wrote to {name} at that moment; {world}", hint="try again")
    if isinstance(error, pg.OperationalError):
        return BackendError(
            f"{name} cannot be reached or gave up: {text}; {world}",
            hint="try again when it answers; an action that wrote elsewhere is taken back by its id",
            retryable=True,
        )
    return BackendError(f"{name} refused: {text}; {world}")


RIGHTS = (
    "taking back rows needs a superuser, or an owner of the tables with "
    "GRANT SET ON PARAMETER session_replication_role, and CREATE on the database"
)


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
