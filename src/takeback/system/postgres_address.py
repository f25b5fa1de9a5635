"""Addresses of PostgreSQL servers, and the driver, which is imported on first use."""

from __future__ import annotations

import re
from typing import Any

from takeback.core.redact import HIDDEN, redact
from takeback.errors import UsageError

PREFIXES = ("postgresql://", "postgres://")


def is_address(place: str) -> bool:
    """Return whether this is the address of a server, not the path of a file."""
    return place.startswith(PREFIXES)


def hidden(place: str) -> str:
    """Return what was given as an address, with secrets redacted."""
    # A password may contain any character: everything up to the last @ may belong to it.
    return redact(re.sub(r"((?:\S*?//)?[^\s/:@]*)\S*@", rf"\g<1>:{HIDDEN}@", place))


def parsed(dsn: str) -> dict[str, Any]:
    """Return the parts of an address. An error does not quote it: that may be part of a password."""
    pg = driver()
    user, at, _ = dsn.partition("://")[2].partition("?")[0].rpartition("@")
    try:
        if at and ("/" in user or "@" in user):
            raise pg.ProgrammingError("a character that must be escaped")
        found: dict[str, Any] = pg.conninfo.conninfo_to_dict(dsn)
        if not all(port.isdecimal() or not port for port in str(found.get("port") or "").split(",")):
            raise pg.ProgrammingError("a port that is not a number")
    except pg.ProgrammingError:
        # Without its cause, which contains the address.
        raise UsageError(
            "that is not an address of a database; nothing was done",
            hint="postgresql://user:password@host/database, with / @ : ? # and % in a name or password written as "
            "%2F %40 %3A %3F %23 and %25",
        ) from None
    return found


def called(dsn: str) -> tuple[str, str]:
    """Return the name of the database and of its host, without user and password."""
    found = parsed(dsn)
    return str(found.get("dbname") or found.get("user") or "postgres"), str(found.get("host") or "")


def driver() -> Any:
    """Import and return psycopg, which is an extra."""
    try:
        import psycopg
    except ImportError as error:
        raise UsageError(
            "PostgreSQL needs a driver that is not installed; nothing was done",
            hint="pip install 'takeback[postgres]'",
        ) from error
    return psycopg


def first_line(error: Exception) -> str:
    """Return the first line of a driver's message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
