"""Both stores of leases keep every sentence of the port."""

from __future__ import annotations

from pathlib import Path

import pytest

from takeback.core.leases import Blocked, Lease
from takeback.ports.journal import Journal
from takeback.ports.leases import LeaseStore
from takeback.storage.journal.leases import StoredLeases
from takeback.storage.journal.memory.journal import InMemoryJournal
from takeback.storage.journal.sqlite.journal import SqliteJournal
from takeback.storage.journal.sqlite.lease_table import SqliteLeaseTable
from takeback.system.clock import BootTime
from takeback.testing.clock import ManualClock
from takeback.testing.lease_contract import ANN, BOB, LeaseContract, taken


class TestInMemoryLeases(LeaseContract):
    def open(self, where: Path) -> Journal:
        return InMemoryJournal()


class TestSqliteLeases(LeaseContract):
    def open(self, where: Path) -> Journal:
        return SqliteJournal(where / "journal.db")


class BootClock:
    """A clock since the boot, to be advanced."""

    def __init__(self) -> None:
        self.boot, self.us = "this boot", 1_000_000

    def __call__(self) -> BootTime:
        return BootTime(self.boot, self.us)


@pytest.fixture
def wall() -> ManualClock:
    return ManualClock()


@pytest.fixture
def boot() -> BootClock:
    return BootClock()


@pytest.fixture
def leases(tmp_path: Path, wall: ManualClock, boot: BootClock) -> LeaseStore:
    return StoredLeases(
        SqliteJournal(tmp_path / "journal.db", clock=wall), SqliteLeaseTable(boot), wall.now_us
    )


@pytest.mark.parametrize("hours", [1, -1, 24 * 365])
def test_a_clock_that_jumps_frees_no_lease(leases: LeaseStore, wall: ManualClock, hours: int) -> None:
    lease = taken(leases, "src", ANN, 60)
    wall.advance(3600 * hours)
    assert isinstance(leases.acquire("src", BOB, 60), Blocked)
    assert leases.all()[0].left_us == lease.ttl_us


def test_the_clock_since_the_boot_does(leases: LeaseStore, boot: BootClock) -> None:
    taken(leases, "src", ANN, 60)
    boot.us += 59_999_999
    assert isinstance(leases.acquire("src", BOB, 60), Blocked)
    boot.us += 1
    assert isinstance(leases.acquire("src", BOB, 60), Lease)


def test_another_boot_frees_all_of_them_and_the_numbers_go_on(leases: LeaseStore, boot: BootClock) -> None:
    old = taken(leases, "src", ANN, 10**6)
    boot.boot, boot.us = "the next boot", 1
    assert not leases.all()[0].is_live
    assert taken(leases, "src", BOB).fence > old.fence


def test_numbers_rise_over_processes(tmp_path: Path) -> None:
    fences = []
    for _ in range(3):
        journal = SqliteJournal(tmp_path / "journal.db")
        lease = taken(journal.leases, "src", ANN)
        fences.append(lease.fence)
        journal.leases.release([lease.fence])
        journal.close()
    assert fences == [1, 2, 3]
