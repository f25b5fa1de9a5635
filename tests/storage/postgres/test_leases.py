"""Leases in PostgreSQL: between machines, by the server's clock, over a line that is cut."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from takeback.core import ids
from takeback.core.events import CheckpointTaken
from takeback.core.leases import Blocked, Holder, Lease
from takeback.errors import LeaseLost
from tests.leases import test_clock, test_processes
from tests.resources.postgres.world import Server
from tests.storage.postgres.proxy import CLIENT, SERVER, Proxy
from tests.storage.postgres.world import STORE, opened

ANN, BOB = Holder("r1", "ann"), Holder("r2", "bob")
ALL = bool(os.environ.get("TAKEBACK_TEST_ALL"))
SAMPLE = range(0, 1500, 1 if ALL else 150)
SETTINGS = f'[store]\nstore = "${STORE}"\n'


@pytest.mark.parametrize("side", [CLIENT, SERVER])
def test_a_line_that_is_cut_gives_each_number_once(side: str, server: Server, tmp_path: Path) -> None:
    proxy = Proxy(os.environ[STORE])
    journal = opened(tmp_path, proxy.dsn)
    fences = []
    for place in SAMPLE:
        proxy.cut_after(side, place)
        lease = journal.leases.acquire("src", ANN, 600)
        assert isinstance(lease, Lease)
        assert [one.fence for one in journal.leases.all()] == [lease.fence]
        journal.append([CheckpointTaken(f"{place}")], stream=ids.WORKSPACE, fences=[lease.fence])
        assert journal.leases.renew([lease.fence]) == {lease.fence}
        assert journal.leases.release([lease.fence]) == {lease.fence}
        proxy.disarm()
        fences.append(lease.fence)
    assert fences == sorted(set(fences)) and proxy.cuts
    assert journal.head().count == len(SAMPLE)
    journal.close()
    proxy.close()


def test_of_two_machines_one_has_it_and_the_first_is_refused_when_it_comes_back(
    server: Server, tmp_path: Path
) -> None:
    one, two = opened(tmp_path), opened(tmp_path)
    old = one.leases.acquire("src", ANN, 0.05)
    assert isinstance(old, Lease)
    found = two.leases.acquire("src", BOB, 600)
    while isinstance(found, Blocked):
        assert found.by[0].holder == ANN
        found = two.leases.acquire("src", BOB, 600)
    assert found.fence > old.fence
    with pytest.raises(LeaseLost, match="nothing was recorded"):
        one.append([CheckpointTaken()], stream=ids.WORKSPACE, fences=[old.fence])
    two.append([CheckpointTaken()], stream=ids.WORKSPACE, fences=[found.fence])
    assert one.head().count == 1
    one.close()
    two.close()


def test_two_processes_race_for_one_lease(server: Server, tmp_path: Path) -> None:
    test_processes.two_race(opened, tmp_path, 1000 if ALL else 100)


def test_what_a_killed_holder_had_locked_stays_locked(server: Server, tmp_path: Path) -> None:
    test_processes.stays_locked(test_processes.prepared(tmp_path, SETTINGS))


def test_when_its_time_is_over_whoever_takes_it_is_told_what_stands(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    test_processes.told_what_stands(test_processes.prepared(tmp_path, SETTINGS), caplog)


@pytest.mark.parametrize("point", test_processes.POINTS)
def test_killed_at_every_place(server: Server, tmp_path: Path, point: str) -> None:
    test_processes.kill_at(point, test_processes.prepared(tmp_path, SETTINGS))


@pytest.mark.parametrize("how", [test_clock.jump, test_clock.jump_while_it_is_held])
def test_a_clock_that_jumps_frees_nothing(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: Callable[..., None]
) -> None:
    how(test_processes.prepared(tmp_path, SETTINGS), monkeypatch)
