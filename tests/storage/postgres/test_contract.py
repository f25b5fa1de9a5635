"""Journal, outbox and leases in PostgreSQL keep every sentence of the port."""

from __future__ import annotations

from pathlib import Path

import pytest

from takeback.ports.journal import Journal
from takeback.testing.compaction_contract import CompactionContract
from takeback.testing.journal_contract import DurableJournalContract
from takeback.testing.lease_contract import LeaseContract
from takeback.testing.moving_contract import MovingContract
from takeback.testing.outbox_contract import OutboxContract
from tests.storage.postgres.world import opened


@pytest.mark.usefixtures("server")
class TestPostgresJournal(DurableJournalContract):
    def open(self, where: Path) -> Journal:
        return opened(where)


@pytest.mark.usefixtures("server")
class TestPostgresOutbox(OutboxContract):
    def open(self, where: Path) -> Journal:
        return opened(where)


@pytest.mark.usefixtures("server")
class TestPostgresLeases(LeaseContract):
    def open(self, where: Path) -> Journal:
        return opened(where)


@pytest.mark.usefixtures("server")
class TestPostgresCompaction(CompactionContract):
    def open(self, where: Path) -> Journal:
        return opened(where)


@pytest.mark.usefixtures("server")
class TestPostgresMoving(MovingContract):
    def open(self, where: Path) -> Journal:
        return opened(where)
