"""Leases between real processes: never two holders, and none that has to be waited for when its process is gone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from takeback import faults
from takeback.core.leases import Holder, Lease
from takeback.engine import processes
from takeback.engine.leases import Leases
from takeback.opening import open_workspace
from takeback.storage.postgres.journal import PostgresJournal
from takeback.storage.sqlite import SqliteJournal
from tests.runs import kill
from tests.world.settings import write

ALL = bool(os.environ.get("TAKEBACK_TEST_ALL"))
ROUNDS = 1000

OpenJournal = Callable[[Path], SqliteJournal | PostgresJournal]
POINTS = sorted(point for point in faults.known() if point.startswith("lease-"))


def race(open_journal: OpenJournal, folder: Path, rounds: int, me: int) -> None:
    """Take the lease again and again, and say in a shared file when it is had and when it is let go."""
    journal = open_journal(folder)
    leases = Leases(journal.leases, folder)
    holder = Holder(f"r{me}", process=processes.this_process())
    shared = os.open(folder / "shared", os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    for _ in range(rounds):
        lease = leases.take("src", holder, ttl_s=60, wait_s=60)
        os.write(shared, f"take {lease.fence} {me}\n".encode())
        os.write(shared, f"free {lease.fence} {me}\n".encode())
        leases.release([lease.fence])
    journal.close()


def held_one_after_the_other(shared: Path) -> list[int]:
    """The fences in the order in which they were had; each is let go before the next is had."""
    words = [line.split() for line in shared.read_text().splitlines()]
    for taken, freed in zip(words[::2], words[1::2], strict=True):
        assert (taken[0], freed[0]) == ("take", "free")
        assert taken[1:] == freed[1:]
    return [int(fence) for _, fence, _ in words[::2]]


def in_a_file(folder: Path) -> SqliteJournal:
    return SqliteJournal(folder / "journal.db")


def test_two_processes_race_for_one_lease(tmp_path: Path) -> None:
    two_race(in_a_file, tmp_path, ROUNDS)


def two_race(open_journal: OpenJournal, folder: Path, rounds: int) -> None:
    open_journal(folder).close()
    errors = folder / "errors"
    pids = [kill.start(race, open_journal, folder, rounds // 2, me, errors=errors) for me in (1, 2)]
    assert [kill.end(pid) for pid in pids] == [0, 0], errors.read_text()
    fences = held_one_after_the_other(folder / "shared")
    assert len(fences) == rounds
    assert fences == sorted(set(fences))


def hold(folder: Path) -> None:
    with (
        open_workspace(folder / "work", home=folder / "state", watching=False) as tb,
        tb.run("one", key="K") as run,
        run.lock("src", ttl_s=3600),
    ):
        (folder / "ready").touch()
        time.sleep(60)


def test_a_holder_that_is_killed_frees_it_at_once(tmp_path: Path) -> None:
    kill_the_holder(prepared(tmp_path))


def prepared(folder: Path, settings: str = "") -> Path:
    (folder / "work").mkdir()
    write(folder / "work", settings, folder / "state")
    return folder


def kill_the_holder(tmp_path: Path) -> None:
    pid = kill.start(hold, tmp_path, errors=tmp_path / "errors")
    while not (tmp_path / "ready").exists():
        time.sleep(0.01)
    with open_workspace(tmp_path / "work", home=tmp_path / "state", watching=False) as tb:
        (old,) = tb.leases.live()
        os.kill(pid, signal.SIGKILL)
        assert kill.end(pid) == -signal.SIGKILL
        assert tb.leases.live() == []
        with tb.run("two") as run, run.lock("src") as lock:
            assert lock.fence > old.fence


def work(folder: Path) -> None:
    """A program that locks, works and lets go, with a renewal in between."""
    with (
        open_workspace(folder / "work", home=folder / "state", watching=False) as tb,
        tb.run("one", key="K") as run,
        run.lock("src", ttl_s=3600) as lock,
    ):
        tb.leases.store.renew([lock.fence])
        run.call(_write, str(folder / "work/a"))


def _write(path: str) -> None:
    Path(path).write_text("a")


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_every_place(tmp_path: Path, point: str) -> None:
    kill_at(point, prepared(tmp_path))


def kill_at(point: str, tmp_path: Path) -> None:
    """Killed there, again while it recovers, and then let be."""
    assert kill.killed_at(point, work, tmp_path, errors=tmp_path / "errors")
    kill.killed_at(point, work, tmp_path, errors=tmp_path / "errors")
    assert kill.run(work, tmp_path, errors=tmp_path / "errors") == 0, (tmp_path / "errors").read_text()
    with open_workspace(tmp_path / "work", home=tmp_path / "state", watching=False) as tb:
        assert tb.leases.live() == []
        assert (tmp_path / "work/a").read_text() == "a"
        assert tb.verify() == []
        (lease,) = [tb.leases.store.acquire("src", Holder("r1"), 60)]
        assert isinstance(lease, Lease) and lease.fence > 1
