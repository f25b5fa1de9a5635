"""Which adapter a database belongs to: a file is SQLite's, an address is PostgreSQL's."""

from __future__ import annotations

from takeback.errors import UsageError
from takeback.ports import Databases, Transaction
from takeback.resources.postgres.link import is_address


class ByPlace:
    """The databases of a workspace, each with the adapter that knows it."""

    def __init__(self, servers: Databases) -> None:
        self._servers = servers

    def prepare(self, place: str) -> str:
        return self._adapter(place).prepare(place)

    def begin(self, place: str, action: str) -> Transaction:
        return self._adapter(place).begin(place, action)

    def _adapter(self, place: str) -> Databases:
        if is_address(place):
            return self._servers
        raise UsageError(f"{place} is no database that can be guarded")
