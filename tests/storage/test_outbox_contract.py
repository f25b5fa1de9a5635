"""Both outboxes keep every sentence of the port."""

from __future__ import annotations

from pathlib import Path

import pytest

from takeback.core.intents import IntentState
from takeback.ports.journal import Journal
from takeback.storage.journal.memory.journal import InMemoryJournal
from takeback.storage.journal.sqlite import outbox_table
from takeback.storage.journal.sqlite.journal import SqliteJournal
from takeback.system.clock import BootTime
from takeback.testing.clock import ManualClock
from takeback.testing.intents import released, state
from takeback.testing.outbox_contract import OutboxContract


class TestInMemoryOutbox(OutboxContract):
    def open(self, where: Path) -> Journal:
        return InMemoryJournal()


class TestSqliteOutbox(OutboxContract):
    def open(self, where: Path) -> Journal:
        return SqliteJournal(where / "journal.db")


def test_a_clock_that_jumps_frees_no_lease(tmp_path: Path) -> None:
    clock = ManualClock()
    journal = SqliteJournal(tmp_path / "journal.db", clock=clock)
    (id,) = released(journal, 1)
    journal.outbox.claim("me", 1, 60)
    for hours in (1, -1):
        clock.advance(3600 * hours)
        assert journal.outbox.claim("you", 1, 60) == []
    assert state(journal.outbox, id) is IntentState.CLAIMED
    journal.close()


def test_after_a_power_cut_every_claim_may_have_been_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That an attempt begins is not synced, so of another boot nobody knows."""
    journal = SqliteJournal(tmp_path / "journal.db")
    (id,) = released(journal, 1)
    journal.outbox.claim("me", 1, 60)
    monkeypatch.setattr(outbox_table, "boot_clock", lambda: BootTime("another boot", 1))
    (queued,) = [q for _ in range(2) for q in journal.outbox.claim("you", 1, 60)]
    assert (queued.id, queued.attempts, queued.unsure) == (id, 1, True)
    journal.close()
