"""Journals in memory and in SQLite are taken to another place as the port says."""

from __future__ import annotations

from pathlib import Path

from takeback.ports import Journal
from takeback.storage.in_memory import InMemoryJournal
from takeback.storage.sqlite import SqliteJournal
from takeback.testing.moving_contract import MovingContract


class TestInMemoryMoving(MovingContract):
    def open(self, where: Path) -> Journal:
        return InMemoryJournal()


class TestSqliteMoving(MovingContract):
    def open(self, where: Path) -> Journal:
        return SqliteJournal(where / "journal.db")
