"""A worker whose server goes away: it waits, loses nothing, counts right, and ends when it is told to."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from takeback.core.intents import AttemptOutcome, IntentState, Queued
from takeback.engine.outbox.delivery import Delivery, Manner
from takeback.engine.outbox.worker import Worker
from takeback.errors import BackendError
from takeback.storage.journal.postgres.journal import PostgresJournal
from takeback.system import crash_points
from takeback.system.clock import SystemClock
from takeback.testing.intents import delivered, released
from tests.resources.postgres.world import Server
from tests.storage.postgres.proxy import SERVER, Proxy
from tests.storage.postgres.world import STORE, opened

ALL = bool(os.environ.get("TAKEBACK_TEST_ALL"))
ANSWERS = range(300) if ALL else range(120, 240, 15)
INTENTS = 6
PLACES = ["outbox-claimed", "outbox-started", "outbox-sent", "outbox-settled"]


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    made = Proxy(os.environ[STORE])
    yield made
    made.close()


@pytest.fixture
def journal(proxy: Proxy, tmp_path: Path) -> Iterator[PostgresJournal]:
    made = opened(tmp_path, proxy.dsn, patience_s=0.1)
    yield made
    proxy.refuse = False
    crash_points.set_hook(None)
    made.close()


class Noted(Delivery):
    """Delivers at once, and keeps what it delivered."""

    def __init__(self) -> None:
        super().__init__(lambda view, full: view, SystemClock(), Manner())
        self.sent: list[str] = []

    def __call__(self, queued: Queued) -> AttemptOutcome:
        self.sent.append(queued.id)
        return delivered(queued)


class Working:
    """A worker in a thread."""

    def __init__(
        self, journal: PostgresJournal, *, came_to_be_away: Callable[[Working], None] = lambda _: None
    ) -> None:
        self.delivery = Noted()
        self._came_to_be_away = came_to_be_away
        self.told: list[str] = []
        self.away = threading.Event()
        self.error: BaseException | None = None
        self.courier = Worker(
            journal.outbox,
            self.delivery,
            SystemClock(),
            concurrency=1,
            told=lambda outcome: self.told.append(outcome.queued.id),
            away=self._is_away,
        )
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.courier.run()
        except BaseException as error:  # noqa: BLE001  looked at by the test
            self.error = error

    def _is_away(self, _error: BackendError) -> None:
        self._came_to_be_away(self)
        self.away.set()

    def end(self) -> None:
        self.courier.stop.set()
        self.thread.join(60)
        assert not self.thread.is_alive()


def go_away_at(proxy: Proxy, place: str, nth: int, *, answers: int = 0) -> None:
    """The server is gone from the n-th time on that this place is passed, and so many bytes of its answers later."""
    left = nth

    def hook(name: str) -> None:
        nonlocal left
        left -= name == place
        if name == place and left == 0:
            proxy.refuse = True
            proxy.cut_after(SERVER, answers)

    crash_points.set_hook(hook)


# The second transaction records an outcome. The answers to what it writes, and to its commit, get lost in turn. All
# that come after the first are recorded together.
MOMENTS = [
    *((place, 2 if place == "outbox-settled" else 3, 0) for place in PLACES),
    *(("journal-inside", 2, n) for n in ANSWERS),
    *(("journal-inside", 4, n) for n in ANSWERS),
]


@pytest.mark.parametrize("place, nth, answers", MOMENTS)
def test_it_goes_on_when_the_server_is_back(
    place: str, nth: int, answers: int, journal: PostgresJournal, proxy: Proxy
) -> None:
    every = released(journal, INTENTS)
    go_away_at(proxy, place, nth, answers=answers)
    worker = Working(journal)
    assert worker.away.wait(60)
    proxy.refuse = False
    while journal.outbox.counts() != {IntentState.DELIVERED: INTENTS}:
        time.sleep(0.02)
    worker.end()
    assert worker.error is None
    # Each was told and counted once, also where the answer to its record was lost.
    assert sorted(worker.told) == sorted(every)
    assert (worker.courier.tally.delivered, worker.courier.tally.lost) == (INTENTS, 0)
    assert set(worker.delivery.sent) == set(every)
    assert journal.outbox.owners() == [] and list(journal.check()) == []


def test_what_was_sent_meanwhile_is_recorded_and_not_sent_again(
    journal: PostgresJournal, proxy: Proxy
) -> None:
    (id,) = released(journal, 1)
    go_away_at(proxy, "outbox-sent", 1)
    worker = Working(journal)
    assert worker.away.wait(60)
    proxy.refuse = False
    while journal.outbox.counts() != {IntentState.DELIVERED: 1}:
        time.sleep(0.02)
    worker.end()
    assert worker.error is None and worker.courier.tally.lost == 0
    assert worker.delivery.sent == worker.told == [id]
    assert journal.outbox.attempts(id) == []


def test_one_that_is_told_to_end_while_the_server_comes_back_records_what_it_sent(
    journal: PostgresJournal, proxy: Proxy
) -> None:
    (id,) = released(journal, 1)
    go_away_at(proxy, "outbox-sent", 1)

    def come_back(worker: Working) -> None:
        proxy.refuse = False
        worker.courier.stop.set()

    worker = Working(journal, came_to_be_away=come_back)
    worker.thread.join(60)
    assert worker.error is None
    assert worker.delivery.sent == worker.told == [id]
    assert journal.outbox.counts() == {IntentState.DELIVERED: 1}


def test_it_ends_when_it_is_told_to_though_the_server_is_away(journal: PostgresJournal, proxy: Proxy) -> None:
    released(journal, INTENTS)
    go_away_at(proxy, "outbox-sent", 3)
    worker = Working(journal)
    assert worker.away.wait(60)
    worker.end()
    assert isinstance(worker.error, BackendError) and worker.error.retryable
    assert "being delivered, and will be delivered again with the same key" in worker.error.message
    proxy.refuse = False
    crash_points.set_hook(None)
    # Its process lives on here, so only the lease tells that it has ended; elsewhere others take over at once.
    (owner,) = journal.outbox.owners()
    journal.outbox.free(owner)
    again = Working(journal)
    while journal.outbox.counts() != {IntentState.DELIVERED: INTENTS}:
        time.sleep(0.02)
    again.end()
    assert again.error is None
