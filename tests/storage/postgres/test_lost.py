"""The connection is cut at any byte, or the server goes away: each append is there once, or reported."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from takeback.core import ids
from takeback.core.events import CheckpointTaken
from takeback.errors import BackendError
from takeback.storage.journal.postgres.journal import PostgresJournal
from tests.resources.postgres.world import Server
from tests.storage.postgres.proxy import CLIENT, SERVER, Proxy
from tests.storage.postgres.world import STORE, opened

EVERY = 1 if os.environ.get("TAKEBACK_TEST_ALL") else 61


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    made = Proxy(os.environ[STORE])
    yield made
    made.close()


@pytest.fixture
def far(proxy: Proxy, tmp_path: Path) -> Iterator[PostgresJournal]:
    made = opened(tmp_path, proxy.dsn)
    made.append([CheckpointTaken("first")], stream=ids.WORKSPACE)
    yield made
    made.close()


def say(journal: PostgresJournal, text: str, *, key: str = "", durable: bool = True) -> int:
    events = [CheckpointTaken(f"{text} a"), CheckpointTaken(f"{text} b")]
    return journal.append(events, stream=ids.WORKSPACE, key=key, durable=durable)[0].seq


def texts(journal: PostgresJournal) -> list[str]:
    return [record.event.message for record in journal.read() if isinstance(record.event, CheckpointTaken)]


def size_of(far: PostgresJournal, proxy: Proxy, kind: str, other: PostgresJournal | None) -> dict[str, int]:
    """How many bytes an append takes in each direction."""
    before = dict(proxy.passed)
    for turn in range(8):  # prepared by then, so that every later one is alike
        prepare(turn, other)
        before = dict(proxy.passed)
        say(far, f"warm {turn}", key=f"warm {turn}" if kind == "keyed" else "", durable=kind != "soon")
    return {side: proxy.passed[side] - before[side] for side in before}


def prepare(turn: int, other: PostgresJournal | None) -> None:
    if other:  # somebody else writes in between, so the next append holds the row first
        other.append([CheckpointTaken(f"other {turn}")], stream="other")


@pytest.mark.parametrize("side", [CLIENT, SERVER])
@pytest.mark.parametrize("kind", ["plain", "keyed", "soon", "rival"])
def test_cut_at_any_byte(
    kind: str, side: str, far: PostgresJournal, proxy: Proxy, tmp_path: Path, server: Server
) -> None:
    other = opened(tmp_path) if kind == "rival" else None
    size = size_of(far, proxy, kind, other)[side]
    told = []
    # A little further than it should take: the last cuts come with the next append.
    for place in range(0, size + 3 * EVERY, EVERY):
        prepare(place, other)
        proxy.cut_after(side, place)
        told.append(f"{place}")
        say(far, f"{place}", key=f"key {place}" if kind == "keyed" else "", durable=kind != "soon")
    proxy.disarm()
    # An answer may be some bytes shorter than the one that was measured: then the last cuts do not come.
    assert proxy.cuts >= 0.9 * len(told) - 4
    wanted = [f"{text} {half}" for text in told for half in "ab"]
    assert [text for text in texts(far) if text.split()[0].isdigit()] == wanted
    assert list(far.check()) == []
    if other:
        other.close()


def test_reading_goes_on_where_it_was(far: PostgresJournal, proxy: Proxy) -> None:
    for turn in range(5):
        say(far, f"{turn}")
    for place in range(0, 3000, 20 * EVERY):
        proxy.cut_after(SERVER, place)
        assert len(texts(far)) == 11
        assert far.head().count == 11
        assert far.get(3) is not None
    assert proxy.cuts


def test_many_threads_over_a_bad_line(far: PostgresJournal, proxy: Proxy) -> None:
    chance = random.Random(8)
    stop = threading.Event()
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(25):
                say(far, f"{number}.{turn}", key=f"k{number}.{turn}" if turn % 2 else "")
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()

    def disturb() -> None:
        while not stop.is_set():
            time.sleep(chance.uniform(0, 0.03))
            proxy.cut_after(chance.choice([CLIENT, SERVER]), chance.randrange(3000))

    disturber = threading.Thread(target=disturb)
    disturber.start()
    for thread in threads:
        thread.join()
    stop.set()
    disturber.join()
    proxy.disarm()
    assert errors == [] and proxy.cuts
    found = texts(far)[1:]
    assert sorted(found) == sorted(
        f"{n}.{turn} {half}" for n in range(6) for turn in range(25) for half in "ab"
    )
    for number in range(6):
        mine = [text for text in found if text.startswith(f"{number}.")]
        assert mine == [f"{number}.{turn} {half}" for turn in range(25) for half in "ab"]
    assert list(far.check()) == []


def test_a_server_that_stays_away_is_reported(proxy: Proxy, tmp_path: Path) -> None:
    journal = opened(tmp_path, proxy.dsn, patience_s=0.2)
    say(journal, "before")
    proxy.refuse = True
    proxy.cut()
    with pytest.raises(BackendError, match=r"cannot be reached.*unknown whether it was recorded"):
        say(journal, "sent into the void")
    with pytest.raises(BackendError, match=r"cannot be reached.*Nothing was recorded") as caught:
        say(journal, "never sent")
    assert caught.value.retryable
    with pytest.raises(BackendError, match="cannot be reached"):
        journal.head()
    proxy.refuse = False
    say(journal, "after")
    assert texts(journal) == ["before a", "before b", "after a", "after b"]
    assert list(journal.check()) == []
    journal.close()


def test_a_server_that_stays_away_is_waited_for_once(proxy: Proxy, tmp_path: Path) -> None:
    """Not anew with each statement: whoever stands in line, or wants to end, would wait for all before."""
    journal = opened(tmp_path, proxy.dsn, patience_s=0.2)
    proxy.refuse = True
    proxy.cut()
    with pytest.raises(BackendError, match="cannot be reached"):
        journal.head()
    before = proxy.refused
    with pytest.raises(BackendError, match="cannot be reached"):
        journal.head()
    assert proxy.refused == before + 1
    proxy.refuse = False
    say(journal, "after")
    proxy.cut()
    assert texts(journal) == ["after a", "after b"]
    journal.close()


def test_an_answer_that_never_came_is_said_to_be_in_doubt(proxy: Proxy, tmp_path: Path) -> None:
    journal = opened(tmp_path, proxy.dsn, patience_s=0.2)
    say(journal, "before")
    proxy.refuse = True
    proxy.cut_after(SERVER, 0)
    with pytest.raises(BackendError, match="unknown whether it was recorded"):
        say(journal, "perhaps", key="k")
    proxy.refuse = False
    # Asked again under its key it is there once, whatever happened.
    say(journal, "perhaps", key="k")
    assert texts(journal) == ["before a", "before b", "perhaps a", "perhaps b"]
    assert list(journal.check()) == []
    journal.close()


def test_backends_that_are_ended_at_random(journal: PostgresJournal) -> None:
    chance = random.Random(3)
    stop = threading.Event()

    def end_some() -> None:
        with psycopg.connect(os.environ[STORE], autocommit=True) as db:
            while not stop.is_set():
                time.sleep(chance.uniform(0.05, 0.3))
                db.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'takeback'"
                )

    ending = threading.Thread(target=end_some)
    ending.start()
    until = time.monotonic() + 2
    turns = 0
    while turns < 20 or time.monotonic() < until:
        say(journal, f"{turns}", durable=bool(turns % 3))
        turns += 1
    stop.set()
    ending.join()
    assert texts(journal) == [f"{turn} {half}" for turn in range(turns) for half in "ab"]
    assert list(journal.check()) == []
