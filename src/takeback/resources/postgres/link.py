"""Connections to a server, and its errors in our words. The driver is imported when it is first needed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from takeback.core.redact import HIDDEN, redact
from takeback.errors import BackendError, ConflictError, RefusedError, TakebackError, UsageError

if TYPE_CHECKING:
    import psycopg

CONNECT_S = 5
LOCK_MS = 5_000
"""How long an undo waits for what somebody's open transaction holds."""

SETTING = "takeback.action"
PREFIXES = ("postgresql://", "postgres://")

Row = tuple[Any, ...]


def is_address(place: str) -> bool:
    """Whether this names a database of a server, and not a file."""
    return place.startswith(PREFIXES)


def hidden(place: str) -> str:
    """An address or whatever else was given for one, without what looks like a secret."""
    # A password may have any character in it: all up to the last @ may be of it.
    return redact(re.sub(r"(://[^\s/:@]*)\S*@", rf"\g<1>:{HIDDEN}@", place))


def _parsed(dsn: str) -> dict[str, Any]:
    """The parts of an address. What is wrong with one is not quoted: it may be a part of a password."""
    pg = driver()
    user, at, _ = dsn.partition("://")[2].partition("?")[0].rpartition("@")
    try:
        if at and ("/" in user or "@" in user):
            raise pg.ProgrammingError("a character that must be written in another way")
        found: dict[str, Any] = pg.conninfo.conninfo_to_dict(dsn)
    except pg.ProgrammingError:
        # Without its cause, which has the text of the address in it.
        raise UsageError(
            "that is no address of a database; nothing was done",
            hint="postgresql://user:password@host/database, with / @ : ? # and % in a name or password written as "
            "%2F %40 %3A %3F %23 and %25",
        ) from None
    return found


def driver() -> Any:
    """psycopg, which is an extra."""
    try:
        import psycopg
    except ImportError as error:
        raise UsageError(
            "PostgreSQL needs a driver that is not installed; nothing was done",
            hint="pip install 'takeback[postgres]'",
        ) from error
    return psycopg


def options(token: str, given: str = "") -> str:
    """The PGOPTIONS with which every statement of a session is known as an action's."""
    # The server splits this at spaces; a token has the name of a folder in it.
    safe = token.replace("\\", "\\\\").replace(" ", "\\ ")
    return f"{given} -c {SETTING}={safe}".strip()


def connect(dsn: str, *, token: str = "", autocommit: bool = False) -> psycopg.Connection[Row]:
    """A connection, in the name of an action or of nobody, whatever the environment says."""
    pg = driver()
    with translated(dsn, "nothing was done"):
        found = _parsed(dsn)
        given = str(found.get("options") or "")
        link: psycopg.Connection[Row] = pg.connect(
            dsn,
            options=options(token, given),
            connect_timeout=found.get("connect_timeout", CONNECT_S),
            autocommit=autocommit,
        )
    return link


def called(dsn: str) -> tuple[str, str]:
    """The name of the database and of its host, without user and password."""
    found = _parsed(dsn)
    return str(found.get("dbname") or found.get("user") or "postgres"), str(found.get("host") or "")


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


def first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


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
