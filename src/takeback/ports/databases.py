"""The port of databases inside runs: one transaction that commits or aborts with its step."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec


class Transaction(Protocol):
    """An open transaction of a database."""

    @property
    def connection(self) -> Any:
        """What statements are executed with: the driver's own connection."""

    def commit(self) -> None:
        """Make it last, and let go of the connection. On an error nothing has lasted."""

    def abort(self) -> None:
        """Let it never have been, and let go of the connection."""


class PreparedDatabase(msgspec.Struct, frozen=True):
    """A database that is about to be written to."""

    name: str
    """Without any secret."""
    unguarded: str = ""
    """Why what is committed there cannot be taken back, in words."""


class Databases(Protocol):
    """Databases by their place: the path of a file, or an address."""

    def prepare(self, place: str) -> PreparedDatabase:
        """Take care that what is written there can be taken back, or say why it cannot."""

    def begin(self, place: str, action: str) -> Transaction:
        """Begin a transaction in the name of this action."""
