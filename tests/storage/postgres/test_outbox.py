"""The outbox in PostgreSQL: the same trials as for SQLite, with a server that crashes besides."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from takeback.core import ids
from takeback.core.events import RunBegan
from takeback.core.intents import AttemptOutcome, IntentDelivered, IntentState
from takeback.storage.journal.postgres.journal import PostgresJournal
from takeback.testing.intents import LONG_S, defer, release
from takeback.workspace.opening import open_workspace
from tests.outbox import test_kill, test_many, test_race, test_taking_back, tools, workers
from tests.outbox.conftest import QUICK, Place
from tests.resources.postgres.world import Server
from tests.storage.postgres.proxy import CLIENT, SERVER, Proxy
from tests.storage.postgres.test_kill import kill_a_backend
from tests.storage.postgres.world import STORE, opened
from tests.world.settings import write

SETTINGS = QUICK + f'[store]\nstore = "${STORE}"\n'
AWAY_S = 25.0
"""Longer than a connection is patient."""
SAMPLE = range(0, 2400, 1 if os.environ.get("TAKEBACK_TEST_ALL") else 200)


@pytest.fixture
def place(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("TAKEBACK_HOME", str(tmp_path / "state"))
    monkeypatch.setenv(tools.WORLD, str(tmp_path / "world"))
    root = tmp_path / "work"
    root.mkdir()
    write(root, SETTINGS)
    with open_workspace(root, watching=False) as tb:
        made = Place(root, tb)
        assert isinstance(tb.journal, PostgresJournal)
        yield made
        made.sound()


@pytest.mark.timeout(3600)
def test_a_rollback_races_with_the_delivery(place: Place) -> None:
    test_race.test_never_both_and_never_neither(place)


@pytest.mark.timeout(7200)
def test_each_has_one_effect_though_the_server_comes_and_goes(
    place: Place, server: Server, tmp_path: Path, record_property: test_many.Property
) -> None:
    """It is stopped, crashes, and one of its processes is killed; with --all it also stays away for long."""

    def stopped(chance: random.Random) -> str:
        return away(chance.choice(["fast", "immediate"]), chance.uniform(0, 1))

    def away(mode: str, for_s: float) -> str:
        server.halt(mode)
        time.sleep(for_s)
        server.start()
        return f"server stopped ({mode})"

    def crashed(_: random.Random) -> str:
        kill_a_backend(os.environ[STORE])
        return "server process killed"

    last = [lambda _: away("immediate", AWAY_S)] if test_many.ALL else []
    intents = test_many.INTENTS if test_many.ALL else 200
    seen = test_many.weather_the_storm(place, tmp_path, intents, record_property, [stopped, crashed], last)
    assert any(name.startswith("server stopped") for name in seen)


@pytest.mark.sweep  # a connection is patient for 15 s
def test_a_worker_that_starts_while_the_server_is_away_waits_for_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = Proxy(os.environ[STORE])
    with place.tb.run("mail") as run:
        run.defer(tools.note, "hello")
    proxy.refuse = True
    monkeypatch.setenv(STORE, proxy.dsn)
    with workers.running(place.root) as worker:
        assert worker.stderr
        assert "Waiting for the store" in worker.stderr.readline()
        proxy.refuse = False
        while not tools.sent():
            time.sleep(0.05)
            assert worker.poll() is None
        workers.stop(worker)
    proxy.close()


@pytest.mark.parametrize("side", [CLIENT, SERVER])
def test_a_line_that_is_cut_loses_and_doubles_nothing(side: str, server: Server, tmp_path: Path) -> None:
    """Deferred, released, claimed, begun and delivered while the connection is cut after any byte."""
    proxy = Proxy(os.environ[STORE])
    journal = opened(tmp_path, proxy.dsn)
    journal.append([RunBegan("warm")], stream="")
    done: list[str] = []
    for bytes_until in SAMPLE:
        proxy.cut_after(side, bytes_until)
        (id,) = defer(journal, 1)
        release(journal, [id])
        (queued,) = journal.outbox.claim("me", 5, LONG_S)
        assert journal.outbox.start([queued]) == {id}
        assert journal.outbox.renew([queued], LONG_S) == {id}
        assert journal.outbox.settle(
            [AttemptOutcome(queued, IntentDelivered(id, 1), {"n": bytes_until})]
        ) == {id}
        proxy.disarm()
        done.append(id)
    words = [record.event for record in journal.read() if isinstance(record.event, IntentDelivered)]
    assert [word.intent for word in words] == done
    assert journal.outbox.counts() == {IntentState.DELIVERED: len(done)}
    found = [journal.outbox.get(id) for id in done]
    assert [one.result["n"] for one in found if one] == list(SAMPLE)
    assert list(journal.check()) == [] and proxy.cuts
    journal.close()
    proxy.close()


def test_a_clock_that_jumps_frees_no_lease(server: Server, tmp_path: Path) -> None:
    """Leases are told by the server's clock: that of a client does not come into it."""
    now = [10**15]

    class Jumping:
        def now_us(self) -> int:
            return now[0]

    journal = opened(tmp_path, clock=Jumping())
    (id,) = defer(journal, 1)
    release(journal, [id])
    (queued,) = journal.outbox.claim("me", 1, 60)
    now[0] += 3600 * 10**6
    assert journal.outbox.claim("you", 1, 60) == []
    found = journal.outbox.get(ids.make(ids.INTENT, ids.seq_of(queued.id)))
    assert found and found.live and found.owner == "me"
    journal.close()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("suite", [test_kill.kill_while_it_sends, test_kill.kill_while_it_takes_back])
def test_killed_at_every_place(
    suite: Callable[[Path, str], None], server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(tools.WORLD, str(tmp_path / "world"))
    suite(tmp_path, SETTINGS)


def test_taken_back_as_with_sqlite(place: Place) -> None:
    assert test_taking_back.__doc__
    with place.tb.run("mail") as run:
        run.defer(tools.note, "never")
    report = place.tb.undo(run.id)
    assert [item.did for item in report.items if item.resource == "outbox"] == ["cancelled"]
    place.deliver()
    assert tools.said() == []
