"""Leases between real processes: never two holders, and what a holder left that died is kept off or told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from takeback.core.leases import Holder, Lease
from takeback.engine.locks.leases import Leases
from takeback.engine.runs.actions import Action
from takeback.errors import LeaseHeld
from takeback.storage.journal.postgres.journal import PostgresJournal
from takeback.storage.journal.sqlite.journal import SqliteJournal
from takeback.system import processes
from takeback.testing import forks as kill
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace
from tests.crash.points import declared
from tests.world.settings import write

ALL = bool(os.environ.get("TAKEBACK_TEST_ALL"))
ROUNDS = 1000

OpenJournal = Callable[[Path], SqliteJournal | PostgresJournal]
POINTS = sorted(point for point in declared() if point.startswith("lease-"))


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


def hold(folder: Path, ttl_s: float) -> None:
    with (
        open_workspace(folder / "work", home=folder / "state", watching=False) as tb,
        tb.run("one", key="K") as run,
        run.lock("src", ttl_s=ttl_s),
    ):
        (folder / "work/src").mkdir()
        (folder / "work/src/a.py").write_text("half")
        (folder / "ready").touch()
        time.sleep(60)


def prepared(folder: Path, settings: str = "") -> Path:
    (folder / "work").mkdir()
    write(folder / "work", settings, folder / "state")
    return folder


@contextmanager
def killed(folder: Path, ttl_s: float = 3600) -> Iterator[Workspace]:
    """A workspace in which a run wrote half of a file under its lock, and died."""
    pid = kill.start(hold, folder, ttl_s, errors=folder / "errors")
    while not (folder / "ready").exists():
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    assert kill.end(pid) == -signal.SIGKILL
    with open_workspace(folder / "work", home=folder / "state", watching=False) as tb:
        yield tb


def holders(tb: Workspace) -> list[str]:
    return [lease.holder.run for lease in tb.leases.live()]


def test_what_a_killed_holder_had_locked_stays_locked(tmp_path: Path) -> None:
    stays_locked(prepared(tmp_path))


def stays_locked(folder: Path) -> None:
    """Until its run is taken back."""
    with killed(folder) as tb:
        (dead,) = tb.history.runs
        assert holders(tb) == [dead]
        with tb.run("two") as run:
            with pytest.raises(
                LeaseHeld, match=rf"src/a.py is locked by {dead}, process \d+ .*, which died"
            ) as held:
                run.lock("src/a.py").__enter__()
            for way in (f"takeback resume {dead}", f"takeback undo {dead}", "takeback locks release src"):
                assert way in held.value.hint
        assert (
            tb.undo(dead, on_conflict="overwrite").verdict == "clean"
        )  # since its last sign of life is older
        assert holders(tb) == []
        with tb.run("three") as run, run.lock("src") as lock:
            assert not (folder / "work/src").exists()
            assert not lock.left


def test_a_run_that_goes_on_has_it_again_and_frees_it_at_its_end(tmp_path: Path) -> None:
    with killed(prepared(tmp_path)) as tb:
        (dead,) = tb.history.runs
        with tb.run("one", key="K") as run:
            assert run.id == dead
            with tb.run("two") as other, pytest.raises(LeaseHeld):
                other.lock("src").__enter__()
            with run.lock("src"):
                assert len(tb.leases.store.all()) == 1
            assert holders(tb) == []


def test_one_that_goes_on_without_asking_for_it_again_frees_it_too(tmp_path: Path) -> None:
    with killed(prepared(tmp_path)) as tb:
        with tb.run("one", key="K") as run:
            assert holders(tb) == [run.id]
        with tb.run("two") as other, other.lock("src") as lock:
            assert holders(tb) == [other.id] and not lock.left


def test_when_its_time_is_over_whoever_takes_it_is_told_what_stands(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told_what_stands(prepared(tmp_path), caplog)


def told_what_stands(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with killed(folder, ttl_s=0.5) as tb, tb.run("two") as run:
        (dead, _) = tb.history.runs
        with run.lock("src/a.py", wait_s=60) as lock:
            (left,) = lock.left
            assert (left.run, left.name, left.targets) == (dead, "src", ("src", "src/a.py"))
        assert f"{dead}, process " in caplog.text and "which died, had locked src" in caplog.text
        assert "left changes to src, src/a.py" in caplog.text and f"takeback undo {dead}" in caplog.text
        with run.lock("src") as lock:
            assert [left.run for left in lock.left] == [dead]
        with run.lock("src") as lock:
            assert not lock.left  # all of it has been taken


def test_who_takes_another_part_of_it_later_is_told_too(tmp_path: Path) -> None:
    with killed(prepared(tmp_path), ttl_s=0.5) as tb:
        (dead,) = tb.history.runs
        for name in ("src/b.py", "src/a.py", "src/c/d.py", "src/a.py"):
            with tb.run(name) as run, run.lock(name, wait_s=60) as lock:
                assert [(left.run, left.name) for left in lock.left] == [(dead, "src")]
        with tb.run("elsewhere") as run, run.lock("srcs") as lock:
            assert not lock.left
        assert len(tb.leases.store.all()) == 1  # what is left is noted once, however many had a part of it
        assert holders(tb) == []
        tb.undo(dead, on_conflict="overwrite")
        with tb.run("settled") as run, run.lock("src/b.py") as lock:
            assert not lock.left
        assert not tb.leases.store.all()


def test_a_run_that_goes_on_is_not_told_of_itself(tmp_path: Path) -> None:
    with killed(prepared(tmp_path), ttl_s=0.5) as tb:
        with tb.run("two") as run, run.lock("src/b.py", wait_s=60) as lock:
            assert lock.left
        with tb.run("one", key="K") as run, run.lock("src") as lock:
            assert not lock.left
        with tb.run("three") as run, run.lock("src/b.py") as lock:
            assert not lock.left


def test_what_somebody_may_have_written_later_is_not_said_to_be_left_by_it(tmp_path: Path) -> None:
    with killed(prepared(tmp_path), ttl_s=0.5) as tb:
        (tb.root / "later.txt").write_text("mine")
        with tb.run("two") as run, run.lock("src", wait_s=60) as lock:
            (left,) = lock.left
        assert (left.targets, left.perhaps) == (("src", "src/a.py"), ("later.txt",))
        assert "left changes to src, src/a.py, perhaps also to later.txt." in str(left)


def test_a_reboot_is_told_like_a_time_that_is_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with killed(prepared(tmp_path)) as tb, tb.run("two") as run:
        (dead, _) = tb.history.runs
        with apsw.Connection(str(tb.state / "journal.db")) as db:
            db.execute("UPDATE leases SET boot = 'an earlier one'")
        with run.lock("src") as lock:
            assert [left.run for left in lock.left] == [dead]


@pytest.mark.parametrize("is_open", [False, True], ids=["between its calls", "in a call"])
def test_an_agent_that_ends_frees_it_unless_a_call_of_it_was_cut_short(tmp_path: Path, is_open: bool) -> None:
    place = prepared(tmp_path) / "work/a.py"
    with open_workspace(tmp_path / "work", home=tmp_path / "state", watching=False) as tb:
        with subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
        ) as agent:
            session = tb.session("agent", key="S", pid=agent.pid)
            tb.leases.take("a.py", Holder(session.id, process=processes.describe(agent.pid)))
            call = session.begin("Write", {"file_path": str(place), "content": "x"}, call_id="1")
            assert isinstance(call, Action)
            place.write_text("half")
            if not is_open:
                call.end()
        tb.resume()
        assert holders(tb) == ([session.id] if is_open else [])
        tb.undo(session.id, on_conflict="overwrite")
        assert holders(tb) == []


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
