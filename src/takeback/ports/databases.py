"""The port of databases inside runs: one transaction that commits or aborts with its step."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec


class Transaction(Protocol):
    """An open transaction of a database."""

    @property
    def connection(self) -> Any:
        """The driver's own connection, which executes statements."""

    def commit(self) -> None:
        """Commit, and release the connection. On an error nothing was committed."""

    def abort(self) -> None:
        """Abort the transaction, and release the connection."""


class PreparedDatabase(msgspec.Struct, frozen=True):
    """A database that is about to be written to."""

    name: str
    """The name, without secrets."""
    unguarded: str = ""
    """Why a commit there cannot be taken back, as text for people; empty if it can."""


class Databases(Protocol):
    """Databases by their place: the path of a file, or an address."""

    def prepare(self, place: str) -> PreparedDatabase:
        """Make sure that what is written there can be taken back, or return why it cannot."""

    def begin(self, place: str, action: str) -> Transaction:
        """Begin a transaction in the name of this action."""
