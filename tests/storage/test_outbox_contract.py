"""Both outboxes keep every sentence of the port."""

from __future__ import annotations

from pathlib import Path

from takeback.ports import Journal
from takeback.storage.in_memory import InMemoryJournal
from takeback.storage.sqlite import SqliteJournal
from takeback.testing.outbox_contract import OutboxContract


class TestInMemoryOutbox(OutboxContract):
    def open(self, where: Path) -> Journal:
        return InMemoryJournal()


class TestSqliteOutbox(OutboxContract):
    def open(self, where: Path) -> Journal:
        return SqliteJournal(where / "journal.db")
