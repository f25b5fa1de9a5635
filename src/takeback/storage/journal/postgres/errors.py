"""What PostgreSQL's errors mean to a user: what failed, how the world is now, what to do next."""

from __future__ import annotations

from typing import Any

from takeback.errors import BackendError, CorruptionError, TakebackError
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
    pg = driver()
    text = first_line(error)
    match error:
        case pg.errors.DiskFull() | pg.errors.OutOfMemory():
            return BackendError(
                f"the server of {name} has no room left: {text}. {world}",
                hint="free some space on the server, and try again",
                retryable=True,
            )
        case pg.errors.LockNotAvailable() | pg.errors.QueryCanceled() | pg.errors.DeadlockDetected():
            return BackendError(
                f"{name} is busy: another process has been writing for too long. {world}",
                hint="try again; if it stays so, see what the server's pg_stat_activity shows",
                retryable=True,
            )
        case pg.errors.InsufficientPrivilege() | pg.errors.ReadOnlySqlTransaction():
            return BackendError(f"{name} cannot be written to: {text}. {world}", hint=_RIGHTS)
        case pg.errors.UndefinedTable() | pg.errors.UndefinedColumn() | pg.errors.InvalidSchemaName():
            return CorruptionError(
                f"{name} lacks a table of Takeback: {text}. {world}",
                hint="restore the schema takeback_store from a backup of the database",
            )
        case pg.errors.DataCorrupted() | pg.errors.IndexCorrupted() | pg.errors.IntegrityError():
            return CorruptionError(
                f"{name} is damaged: {text}. {world}",
                hint="`takeback verify` shows what is damaged; restore the database from a backup",
            )
    if _FULL in text:
        return BackendError(
            f"{name} has no connection left: {text}. {world}",
            hint="try again when others have ended; how many there may be is set by max_connections of the server, "
            "and CONNECTION LIMIT of the role",
            retryable=True,
        )
    if "failed to resolve host" in text:
        return BackendError(
            f"{name} cannot be found: {text}. {world}",
            hint="see the host in the store's address, and the network",
            retryable=True,
        )
    if _refused(error):
        return BackendError(
            f"{name} lets nobody in with this address: {text}. {world}",
            hint="see user, password and database of the store's address",
        )
    if isinstance(error, pg.OperationalError | pg.InterfaceError):
        return BackendError(
            f"{name} cannot be reached: {text}. {world}", hint=_OUT_OF_REACH, retryable=is_lost(error)
        )
    return BackendError(f"{name} refused: {text}. {world}", hint="see the log of the server")


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
