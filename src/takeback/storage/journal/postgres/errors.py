"""What PostgreSQL's errors mean to a user: what failed, how the world is now, what to do next."""

from __future__ import annotations

from typing import Any

from takeback.errors import BackendError, CorruptionError, TakebackError
from takeback.system.postgres import Translation, translate
from takeback.system.postgres_address import driver, first_line

NOTHING_RECORDED = "Nothing was recorded"
IN_DOUBT = "It is not known whether it was recorded"

_OUT_OF_REACH = (
    "try again when the server answers; all files and content are here, and docs/STORE.md tells what can be done "
    "without it"
)
_FULL = "too many c"
"""`too many clients already`, `too many connections for role …`: the server says both."""
_RIGHTS = (
    "the role needs SELECT, INSERT, UPDATE and DELETE on the tables of the schema takeback_store, and CREATE on the "
    "database for the first time"
)


def is_lost(error: BaseException) -> bool:
    """Whether the connection is gone, or the server for the moment: worth another try."""
    pg = driver()
    e = pg.errors
    # A server that is going down, coming up or full of others says so; so does one that gave up waiting for us.
    if isinstance(error, e.AdminShutdown | e.CrashShutdown | e.CannotConnectNow | e.TooManyConnections):
        return True
    if isinstance(error, e.IdleInTransactionSessionTimeout):
        return True
    # What has a code was answered by a server that is there. What has none is of the connection.
    broken = isinstance(error, pg.OperationalError | pg.InterfaceError) and error.sqlstate is None
    return broken and not _refused(error)


def explain(error: Any, name: str, world: str = NOTHING_RECORDED) -> TakebackError:
    """Translate at the port. `world` says how things are now; no secret of the address is in an error."""
    return translate(error, ERRORS, name, world)


def _refused(error: Any) -> bool:
    """Whether the server is there and says no to this user, password or database.

    While a connection is made the driver gives no code, only what the server said.
    """
    said = str(error)
    if _FULL in said:
        return False  # for the moment
    words = "authentication failed", "no password supplied", "pg_hba.conf", 'database "', 'role "'
    return isinstance(error, driver().OperationalError) and any(word in said for word in words)


def is_known_key(error: BaseException) -> bool:
    """Whether a key was used before, which whoever holds the row finds out about."""
    return isinstance(error, driver().errors.UniqueViolation)


ERRORS = (
    Translation(
        "DiskFull OutOfMemory",
        BackendError,
        "the server of {name} has no room left: {text}. {world}",
        "free some space on the server, and try again",
        retryable=True,
    ),
    Translation(
        "LockNotAvailable QueryCanceled DeadlockDetected",
        BackendError,
        "{name} is busy: another process has been writing for too long. {world}",
        "try again; if it stays so, see what the server's pg_stat_activity shows",
        retryable=True,
    ),
    Translation(
        "InsufficientPrivilege ReadOnlySqlTransaction",
        BackendError,
        "{name} cannot be written to: {text}. {world}",
        _RIGHTS,
    ),
    Translation(
        "UndefinedTable UndefinedColumn InvalidSchemaName",
        CorruptionError,
        "{name} lacks a table of Takeback: {text}. {world}",
        "restore the schema takeback_store from a backup of the database",
    ),
    Translation(
        "DataCorrupted IndexCorrupted IntegrityError",
        CorruptionError,
        "{name} is damaged: {text}. {world}",
        "`takeback verify` shows what is damaged; restore the database from a backup",
    ),
    Translation(
        "Error",
        BackendError,
        "{name} has no connection left: {text}. {world}",
        "try again when others have ended; how many there may be is set by max_connections of the server, "
        "and CONNECTION LIMIT of the role",
        retryable=True,
        when=lambda error: _FULL in first_line(error),
    ),
    Translation(
        "Error",
        BackendError,
        "{name} cannot be found: {text}. {world}",
        "see the host in the store's address, and the network",
        retryable=True,
        when=lambda error: "failed to resolve host" in first_line(error),
    ),
    Translation(
        "OperationalError",
        BackendError,
        "{name} lets nobody in with this address: {text}. {world}",
        "see user, password and database of the store's address",
        when=_refused,
    ),
    Translation(
        "OperationalError InterfaceError",
        BackendError,
        "{name} cannot be reached: {text}. {world}",
        _OUT_OF_REACH,
        retryable=is_lost,
    ),
    Translation("Error", BackendError, "{name} refused: {text}. {world}", "see the log of the server"),
)
