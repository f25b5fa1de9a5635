"""Which adapter a database belongs to: a file is SQLite's, an address is PostgreSQL's."""

from __future__ import annotations

import re

from takeback.errors import UsageError
from takeback.ports.databases import Databases, PreparedDatabase, Transaction
from takeback.system.postgres_address import is_address

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


class ByPlace:
    """The databases of a workspace, each with the adapter that knows it."""

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
        if is_address(place):
            return self._servers
        # The rest of an address may hold a password.
        raise UsageError(
            f"a database at {address[1]}:// cannot be guarded; nothing was begun",
            hint="give the path of a SQLite database, or the address of a PostgreSQL one",
        )
