"""The databases that a workspace guards. Addresses may contain passwords, so the file is private and never shown."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from takeback.errors import BackendError
from takeback.system import durable
from takeback.system.postgres_address import called

FILE = "postgres.json"


class GuardedDatabase(msgspec.Struct, frozen=True):
    """A guarded database: the id of its guard, its name in this workspace, and its address."""

    guard: str
    name: str
    dsn: str

    def __repr__(self) -> str:
        return f"<GuardedDatabase {self.name}>"


class GuardedDatabases:
    """The guarded databases of one workspace."""

    def __init__(self, state: Path) -> None:
        self._path = state / FILE

    def all(self) -> list[GuardedDatabase]:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise BackendError(f"{self._path} cannot be read: {error.strerror}; nothing was done") from error
        try:
            return msgspec.json.decode(data, type=list[GuardedDatabase])
        except msgspec.DecodeError as error:
            raise BackendError(
                f"{self._path} is damaged; nothing was done",
                hint="remove it, and guard each database again: the captured rows are in the database itself",
            ) from error

    def living(self) -> list[GuardedDatabase]:
        """Return the databases whose guard was not removed."""
        return [place for place in self.all() if place.dsn]

    def find(self, guard: str) -> GuardedDatabase | None:
        return next((place for place in self.all() if place.guard == guard), None)

    def named(self, name: str) -> GuardedDatabase | None:
        return next((place for place in self.all() if place.name == name), None)

    def add(self, guard: str, dsn: str) -> GuardedDatabase:
        """Record a database, or its new address."""
        others = [place for place in self.all() if place.guard != guard]
        known = self.find(guard)
        place = GuardedDatabase(guard, known.name if known else _free_name(dsn, others), dsn)
        self._write([*others, place])
        return place

    def remove(self, guard: str) -> None:
        """Forget the address. The name stays taken, because the log uses it for this database."""
        self._write([GuardedDatabase(p.guard, p.name, "" if p.guard == guard else p.dsn) for p in self.all()])

    def _write(self, places: list[GuardedDatabase]) -> None:
        fresh = self._path.with_suffix(".new")
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.json.encode(places))
            file.flush()
            durable.fsync(file.fileno())
        fresh.replace(self._path)


def _free_name(dsn: str, others: list[GuardedDatabase]) -> str:
    """Return the name of the database; with its host or a number if the name is taken."""
    name, host = called(dsn)
    taken = {place.name for place in others}
    for wanted in (name, f"{name}@{os.path.basename(host)}"):
        if wanted not in taken:
            return wanted
    return next(f"{name}#{n}" for n in range(2, 1000) if f"{name}#{n}" not in taken)
