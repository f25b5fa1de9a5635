"""Journals in memory and in SQLite are taken to another place as the port says."""

from __future__ import annotations

from pathlib import Path

from takeback.ports.journal import Journal
from takeback.storage.journal.memory.journal import InMemoryJournal
from takeback.storage.journal.sqlite.journal import SqliteJournal
from takeback.testing.moving_contract import MovingContract


class TestInMemoryMoving(MovingContract):
    def open(self, where: Path) -> Journal:
        return InMemoryJournal()


class TestSqliteMoving(MovingContract):
    def open(self, where: Path) -> Journal:
        return SqliteJournal(where / "journal.db")
