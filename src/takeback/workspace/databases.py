"""The databases of a workspace: the adapter of each, and guarding a PostgreSQL database."""

from __future__ import annotations

import re
from collections.abc import Sequence

from takeback.errors import UsageError
from takeback.ports.databases import Databases, PreparedDatabase, Transaction
from takeback.resources.postgres import guard
from takeback.resources.postgres.guard import Guarded
from takeback.resources.postgres.guarded import GuardedDatabases
from takeback.system import postgres_address

__all__ = ["ByPlace", "Guarded", "GuardedAddress"]

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


class ByPlace:
    """The databases of a workspace, each with its adapter."""

    def __init__(self, files: Databases, servers: Databases) -> None:
        self._files = files
        self._servers = servers

    def prepare(self, place: str) -> PreparedDatabase:
        return self._adapter(place).prepare(place)

    def begin(self, place: str, action: str) -> Transaction:
        return self._adapter(place).begin(place, action)

    def _adapter(self, place: str) -> Databases:
        address = _ADDRESS.match(place)
        if address is None:
            return self._files
        if postgres_address.is_address(place):
            return self._servers
        # The rest of an address may contain a password.
        raise UsageError(
            f"a database at {address[1]}:// is not supported; nothing was begun",
            hint="give the path of a SQLite database, or the address of a PostgreSQL one",
        )


class GuardedAddress:
    """A PostgreSQL database that can be guarded. Its name contains neither user nor password."""

    def __init__(self, address: str) -> None:
        if not postgres_address.is_address(address):
            raise UsageError(
                f"{postgres_address.hidden(address)} is not the address of a database; nothing was done",
                hint="use an address like postgresql://host/database",
            )
        self._address = address
        self.name = postgres_address.called(address)[0]

    def status(self) -> Guarded | None:
        """Return what is under guard there, or None if nothing is."""
        return guard.status(self._address)

    def install(self, known: GuardedDatabases, schemas: Sequence[str]) -> Guarded:
        """Guard these schemas, and register the database with a workspace."""
        made = guard.install(self._address, schemas)
        known.add(made.id, self._address)
        return made

    def remove(self, known: GuardedDatabases) -> bool:
        """Remove the guard with everything that it kept. Return True if there was one."""
        found = self.status()
        if found:
            guard.remove(self._address)
            known.remove(found.id)
        return found is not None

    def prune(self, days: int) -> int:
        """Remove rows that were set aside more than so many days ago. Return how many. Zero means no limit."""
        return guard.prune(self._address, days) if days else 0
