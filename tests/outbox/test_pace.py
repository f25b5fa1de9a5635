"""Quick deliveries begin ahead, so that many share a commit; slow ones, and what was tried before, never do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from takeback.core.intents import AttemptOutcome, IntentState, Queued
from takeback.engine.outbox import worker
from takeback.engine.outbox.delivery import Delivery, Manner
from takeback.engine.outbox.worker import AHEAD_MAX, Pace, Worker
from takeback.system.clock import SystemClock
from takeback.testing import crash
from tests.outbox import tools
from tests.outbox.conftest import Place

THREADS = 2


class Watched(Delivery):
    """Does something before each delivery, given how many there were."""

    def __init__(self, before: Callable[[int], object]) -> None:
        super().__init__(lambda view, full: view, SystemClock(), Manner(first_pause_s=0.001))
        self._before = before
        self._count = 0
        self._lock = threading.Lock()

    def __call__(self, queued: Queued) -> AttemptOutcome:
        with self._lock:
            self._count += 1
            count = self._count
        self._before(count)
        return super().__call__(queued)


def courier(place: Place, before: Callable[[int], object]) -> Worker:
    return Worker(place.tb.outbox, Watched(before), SystemClock(), concurrency=THREADS)


def fill(place: Place, count: int) -> list[str]:
    with place.tb.run("mail") as run:
        return [run.defer(tools.note, str(n)) for n in range(count)]


def begun(place: Place) -> list[str]:
    return [queued.id for queued in place.tb.outbox.page([IntentState.CLAIMED], limit=1000) if queued.begun]


def test_quick_deliveries_share_their_commits(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    # On a busy machine none is quick: so each counts as if it had taken a millisecond.
    took = worker.Pace.took
    monkeypatch.setattr(worker.Pace, "took", lambda pace, _: took(pace, 0.001))
    monkeypatch.setattr(worker, "STALLED_S", 60.0)
    fill(place, 120)
    with crash.at("never", lambda: None) as passes:
        tally = courier(place, lambda _: None).run(once=True)
    assert (tally.delivered, len(set(tools.sent()))) == (120, 120)
    assert passes["outbox-settled"] < 40, "one for several"
    assert passes["disk-sync"] < 80


def test_slow_deliveries_begin_when_there_is_a_thread(place: Place) -> None:
    fill(place, 12)
    most: list[int] = []

    def slow(_: int) -> None:
        time.sleep(0.05)
        most.append(len(begun(place)))

    courier(place, slow).run(once=True)
    assert len(most) == 12
    assert max(most) <= THREADS


def test_what_finds_no_thread_has_not_begun_and_can_be_cancelled(place: Place) -> None:
    every = fill(place, 120)
    stuck, go_on = threading.Barrier(THREADS + 1), threading.Event()

    def stop_at(count: int) -> None:
        if count > 40 and not go_on.is_set():
            stuck.wait(60)
            go_on.wait(60)

    working = courier(place, stop_at)
    thread = threading.Thread(target=lambda: working.run(once=True))
    thread.start()
    stuck.wait(60)
    while len(begun(place)) > THREADS:
        time.sleep(0.01)
    last = place.tb.outbox.cancel(every[-1])
    assert (last.state, last.unsure) == (IntentState.CANCELLED, False)
    go_on.set()
    thread.join(60)
    assert not thread.is_alive()
    states = [one.state for one in place.tb.outbox.page(limit=1000)]
    assert (states.count(IntentState.DELIVERED), states.count(IntentState.CANCELLED)) == (119, 1)
    assert len(tools.sent()) == 119


def test_who_stops_has_begun_nothing_that_it_does_not_end(place: Place) -> None:
    fill(place, 120)
    stuck, go_on = threading.Barrier(THREADS + 1), threading.Event()

    def stop_at(count: int) -> None:
        if count > 40 and not go_on.is_set():
            stuck.wait(60)
            go_on.wait(60)

    working = courier(place, stop_at)
    thread = threading.Thread(target=working.run)
    thread.start()
    stuck.wait(60)
    working.stop.set()
    go_on.set()
    thread.join(60)
    assert not thread.is_alive()
    left = [
        queued for queued in place.tb.outbox.page(limit=1000) if queued.state is not IntentState.DELIVERED
    ]
    assert left and {(one.state, one.attempts, one.unsure) for one in left} == {(IntentState.DUE, 0, False)}
    assert len(tools.sent()) == 120 - len(left)


def queued(attempts: int = 0) -> Queued:
    return Queued("i1", "r1", None, 0, IntentState.CLAIMED, attempts=attempts)  # type: ignore[arg-type]


def test_the_pace_follows_the_deliveries() -> None:
    pace = Pace(4)
    assert (pace.limit, pace.low) == (4, 0), "nothing is known"
    for _ in range(50):
        pace.took(0.0001)
    assert pace.limit == 4 + AHEAD_MAX
    pace.took(2.0)
    assert pace.limit == 4, "one that hangs is enough"
    for _ in range(50):
        pace.took(0.001)
    assert 4 < pace.limit < 4 + AHEAD_MAX
    pace.stalled()
    assert pace.limit == 4


def test_what_was_tried_before_begins_alone() -> None:
    pace = Pace(4)
    for _ in range(50):
        pace.took(0.0001)
    assert pace.allows(queued(), 50)
    assert not pace.allows(queued(attempts=1), 4)
    assert pace.allows(queued(attempts=1), 3)
