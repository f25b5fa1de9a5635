"""Four workers, killed at random, and a receiver that fails, stalls, refuses and dies: one effect for each intent."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from takeback.core.intents import State
from tests.outbox import workers
from tests.outbox.conftest import Place
from tests.outbox.sink import Sink, effects

ALL = bool(os.environ.get("TAKEBACK_TEST_ALL"))
INTENTS = 20_000 if ALL else 500
KILLS_S = (2.0, 10.0) if ALL else (1.0, 3.0)
EACH = 25
ORDERS = 20
WORKERS = 4


@pytest.mark.timeout(7200)
def test_each_has_one_effect(place: Place, tmp_path: Path) -> None:
    sink = Sink(tmp_path / "sink", trouble=0.15)
    with troubled(place, sink):
        for first in range(0, INTENTS, EACH):
            with place.tb.run(f"batch {first}") as run:
                for n in range(first, first + EACH):
                    body = {"n": n, "order": n % ORDERS}
                    order = f"o{n % ORDERS}" if n % 3 else ""
                    run.defer(
                        "http", "POST", sink.url("maybe"), json=body, order=order, timeout_s=0.5, tries=1000
                    )
                if first % (10 * EACH) == 0:
                    before = {effect["body"]["n"] for effect in effects(sink.folder)}
                    assert before.isdisjoint(range(first, first + EACH)), "something left before the commit"
        while unfinished(place):
            time.sleep(0.1)
    sink.kill()
    done = effects(sink.folder)
    assert sorted(effect["body"]["n"] for effect in done) == list(range(INTENTS))
    assert len({effect["key"] for effect in done}) == INTENTS
    in_order: dict[int, list[int]] = defaultdict(list)
    for effect in done:
        if effect["body"]["n"] % 3:
            in_order[effect["body"]["order"]].append(effect["body"]["n"])
    assert all(seen == sorted(seen) for seen in in_order.values())
    attempts_are_counted(place)


def unfinished(place: Place) -> int:
    counts = place.tb.outbox.counts()
    assert State.DEAD not in counts
    return sum(counts.get(state, 0) for state in (State.DUE, State.QUEUED, State.CLAIMED))


def attempts_are_counted(place: Place) -> None:
    after = ""
    while page := place.tb.outbox.page(after=after, limit=1000):
        after = page[-1].id
        for queued in page:
            assert queued.state is State.DELIVERED
            assert len(place.tb.outbox.attempts(queued.id)) == queued.attempts - 1


@contextmanager
def troubled(place: Place, sink: Sink) -> Iterator[None]:
    """Workers are killed and started again, and so is the receiver, until the block ends."""
    chance = random.Random(5)
    crew = [workers.start(place.root, "--concurrency", "4") for _ in range(WORKERS)]
    over = threading.Event()

    def disturb() -> None:
        while not over.wait(chance.uniform(*KILLS_S)):
            one = chance.randrange(WORKERS)
            workers.kill(crew[one])
            crew[one] = workers.start(place.root, "--concurrency", "4")
            if chance.random() < 0.3:
                sink.kill()
                time.sleep(chance.uniform(0, 0.3))
                sink.start()

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        ended = [worker.poll() for worker in crew]
        for worker in crew:
            workers.kill(worker)
    assert ended == [None] * WORKERS, "a worker ended by itself"
