"""Which adapter a database belongs to: a file is SQLite's, an address is PostgreSQL's."""

from __future__ import annotations

from takeback.errors import UsageError
from takeback.ports import Databases, Transaction


class ByPlace:
    """The databases of a workspace, each with the adapter that knows it."""

    def prepare(self, place: str) -> str:
        return self._adapter(place).prepare(place)

    def begin(self, place: str, action: str) -> Transaction:
        return self._adapter(place).begin(place, action)

    def _adapter(self, place: str) -> Databases:
        raise UsageError(f"{place} is no database that can be guarded")
