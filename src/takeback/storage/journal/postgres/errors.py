"""Translation of PostgreSQL's errors for users: what failed, how the world is now, what to do next."""

from __future__ import annotations

from typing import Any

from takeback.errors import BackendError, CorruptionError, TakebackError
from takeback.system.postgres import Translation, translate
from takeback.system.postgres_address import driver, first_line

NOTHING_RECORDED = "Nothing was recorded"
IN_DOUBT = "It is unknown whether it was recorded"

_OUT_OF_REACH = (
    "try again when the server answers; all files and content are here, and docs/STORE.md explains what "
    "works without the server"
)
_FULL = "too many c"
"""The server says `too many clients already` or `too many connections for role …`."""
_RIGHTS = (
    "the role needs SELECT, INSERT, UPDATE and DELETE on the tables of the schema takeback_store, and the first "
    "time also CREATE on the database"
)


def is_lost(error: BaseException) -> bool:
    """Return True if the connection or the server is gone for the moment, so that a retry may help."""
    pg = driver()
    e = pg.errors
    # The server is shutting down, starting up or full, or it ended our idle transaction.
    if isinstance(error, e.AdminShutdown | e.CrashShutdown | e.CannotConnectNow | e.TooManyConnections):
        return True
    if isinstance(error, e.IdleInTransactionSessionTimeout):
        return True
    # An error with a code was sent by a working server. One without a code comes from the connection.
    broken = isinstance(error, pg.OperationalError | pg.InterfaceError) and error.sqlstate is None
    return broken and not _refused(error)


def explain(error: Any, name: str, world: str = NOTHING_RECORDED) -> TakebackError:
    """Translate a driver error. `world` says how things are now; the result contains no secret of the address."""
    return translate(error, ERRORS, name, world)


def _refused(error: Any) -> bool:
    """Return True if the server answered and rejected this user, password or database.

    While a connection is being made the driver reports no code, only the server's message.
    """
    said = str(error)
    if _FULL in said:
        return False  # only for the moment
    words = "authentication failed", "no password supplied", "pg_hba.conf", 'database "', 'role "'
    return isinstance(error, driver().OperationalError) and any(word in said for word in words)


def is_known_key(error: BaseException) -> bool:
    """Return True if a key was already used. The retry that holds the row finds out by what."""
    return isinstance(error, driver().errors.UniqueViolation)


ERRORS = (
    Translation(
        "DiskFull OutOfMemory",
        BackendError,
        "the server of {name} has no space left: {text}. {world}",
        "free some space on the server, and try again",
        retryable=True,
    ),
    Translation(
        "LockNotAvailable QueryCanceled DeadlockDetected",
        BackendError,
        "{name} is busy: another process has been writing for too long. {world}",
        "try again; if it happens again, look at pg_stat_activity on the server",
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
        "{name} lacks one of Takeback's tables: {text}. {world}",
        "restore the schema takeback_store from a backup of the database",
    ),
    Translation(
        "DataCorrupted IndexCorrupted IntegrityError",
        CorruptionError,
        "{name} is damaged: {text}. {world}",
        "`takeback verify --all` shows what is damaged; restore the database from a backup",
    ),
    Translation(
        "Error",
        BackendError,
        "{name} has no free connection: {text}. {world}",
        "try again when other connections have ended; the limits are max_connections of the server and CONNECTION "
        "LIMIT of the role",
        retryable=True,
        when=lambda error: _FULL in first_line(error),
    ),
    Translation(
        "Error",
        BackendError,
        "{name} cannot be found: {text}. {world}",
        "check the host in the store's address, and the network",
        retryable=True,
        when=lambda error: "failed to resolve host" in first_line(error),
    ),
    Translation(
        "OperationalError",
        BackendError,
        "{name} rejected this login: {text}. {world}",
        "check user, password and database in the store's address",
        when=_refused,
    ),
    Translation(
        "OperationalError InterfaceError",
        BackendError,
        "{name} cannot be reached: {text}. {world}",
        _OUT_OF_REACH,
        retryable=is_lost,
    ),
    Translation("Error", BackendError, "{name} refused: {text}. {world}", "see the server's log"),
)
