"""Both journals keep every sentence of the port."""

from __future__ import annotations

from pathlib import Path

from takeback.ports.journal import Journal
from takeback.storage.journal.memory.journal import InMemoryJournal
from takeback.storage.journal.sqlite.journal import SqliteJournal
from takeback.testing.journal_contract import DurableJournalContract, JournalContract


class TestInMemoryJournal(JournalContract):
    def open(self, where: Path) -> Journal:
        return InMemoryJournal()


class TestSqliteJournal(DurableJournalContract):
    def open(self, where: Path) -> Journal:
        return SqliteJournal(where / "journal.db")
