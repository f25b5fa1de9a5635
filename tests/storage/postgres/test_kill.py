"""Kill -9 of a client at every crash point and at random, as for SQLite; and of the server's own processes."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from takeback.core import ids
from takeback.core.events import CheckpointTaken
from takeback.storage.journal.postgres.journal import PostgresJournal
from takeback.testing import crash
from tests.crash.test_journal_kill import POINTS, assert_whole, kill_a_gang
from tests.resources.postgres.world import Server
from tests.storage.postgres.world import STORE, opened

WORKER = "tests.crash.journal_worker:append_some"
SAMPLE = 3
MOMENTS = 100
KILLS = 6


@pytest.fixture
def place(server: Server, tmp_path: Path) -> str:
    return f"{os.environ[STORE]} {tmp_path / 'journal.anchor'}"


@pytest.mark.parametrize("nth", [1, 3])
@pytest.mark.parametrize(
    "point", [point for point in POINTS if point not in ("journal-migrating", "journal-catching-up")]
)
def test_killed_at_a_crash_point(point: str, nth: int, place: str) -> None:
    killed = crash.run(point, nth, [WORKER, place, "4"])
    assert killed.returncode == crash.KILLED, killed.stderr
    # What is in the database but was not said yet counts as well: the kill came after the commit.
    batches = nth if point in ("journal-committed", "journal-anchored") else nth - 1
    assert assert_whole(place, killed.stdout) == batches


def test_killed_while_the_anchor_catches_up(place: str, tmp_path: Path) -> None:
    done = crash.run("never", 1, [WORKER, place, "4"])
    assert done.returncode == 0, done.stderr
    anchor = tmp_path / "journal.anchor"
    anchor.write_bytes(anchor.read_bytes()[:300])
    killed = crash.run("journal-catching-up", 1, [WORKER, place, "4"])
    assert (killed.returncode, killed.stdout) == (crash.KILLED, ""), killed.stderr
    assert assert_whole(place, "") == 5


def test_killed_while_the_tables_are_made(server: Server, tmp_path: Path) -> None:
    place = f"{server.make(schema='')} {tmp_path / 'journal.anchor'}"
    killed = crash.run("journal-migrating", 1, [WORKER, place, "4"])
    assert killed.returncode == crash.KILLED, killed.stderr
    done = crash.run("never", 1, [WORKER, place, "4"])
    assert done.returncode == 0, done.stderr
    assert assert_whole(place, done.stdout) == 5


@pytest.mark.parametrize("seed", range(SAMPLE))
def test_killed_at_a_random_moment(seed: int, place: str) -> None:
    kill_a_gang(seed, place)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(SAMPLE, MOMENTS))
def test_killed_at_many_random_moments(seed: int, place: str) -> None:
    kill_a_gang(seed, place)


# The server


@pytest.fixture(scope="module")
def fragile() -> Iterator[Server]:
    """A server of its own, that is made to crash."""
    made = Server()
    yield made
    made.stop()


def kill_a_backend(dsn: str) -> None:
    """The server takes that as damage to what its processes share: it drops them all, and recovers from its log."""
    with psycopg.connect(dsn, autocommit=True) as db:
        row = db.execute("SELECT pg_backend_pid()").fetchone()
        assert row
        os.kill(row[0], signal.SIGKILL)


def say(journal: PostgresJournal, text: str, *, durable: bool = True) -> int:
    return journal.append([CheckpointTaken(text)], stream=ids.WORKSPACE, durable=durable)[0].seq


def texts(journal: PostgresJournal) -> list[str]:
    return [record.event.message for record in journal.read() if isinstance(record.event, CheckpointTaken)]


def test_a_server_that_crashes_again_and_again(fragile: Server, tmp_path: Path) -> None:
    dsn = fragile.make(schema="")
    journal = opened(tmp_path, dsn)
    chance = random.Random(5)
    stop = threading.Event()
    count, kills = 0, 0

    def kill_some() -> None:
        nonlocal kills
        seen = 0
        while kills < KILLS and not stop.is_set():
            if count == seen:
                time.sleep(0.01)  # a busy machine takes its time to start the server again
                continue
            time.sleep(chance.uniform(0, 0.4))
            seen = count
            with contextlib.suppress(psycopg.OperationalError):  # it has not come back yet
                kill_a_backend(dsn)
                kills += 1

    killing = threading.Thread(target=kill_some)
    killing.start()
    try:
        while killing.is_alive() or count <= 10:
            say(journal, f"{count}", durable=bool(count % 3))
            count += 1
    finally:
        stop.set()
        killing.join()
    assert kills == KILLS
    assert texts(journal) == [f"{turn}" for turn in range(count)]
    assert list(journal.check()) == []
    journal.close()


def test_what_a_crash_forgot_is_written_again(fragile: Server, tmp_path: Path) -> None:
    dsn = fragile.make(schema="")
    slow_to_write(fragile)
    journal = opened(tmp_path, dsn)
    say(journal, "durable")
    for turn in range(3):
        say(journal, f"soon {turn}", durable=False)
    anchored = (tmp_path / "journal.anchor").read_text().splitlines()
    assert len(anchored) == 1, "only what is durable"
    with psycopg.connect(fragile.dsn("postgres"), autocommit=True) as db:
        written = db.execute("SELECT pg_current_wal_insert_lsn() > pg_current_wal_flush_lsn()").fetchone()
    kill_a_backend(fragile.dsn("postgres"))
    say(journal, "after")
    assert written == (True,), "else the crash had nothing to forget"
    assert texts(journal) == ["durable", "soon 0", "soon 1", "soon 2", "after"]
    assert list(journal.check()) == []
    journal.close()


def slow_to_write(server: Server) -> None:
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as db:
        db.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
        db.execute("ALTER SYSTEM SET wal_writer_flush_after = '100MB'")
        db.execute("SELECT pg_reload_conf()")
