"""Four workers, killed at random, and a receiver that fails, stalls, refuses and dies: one effect for each intent."""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from takeback.core.intents import IntentState
from takeback.errors import BackendError
from tests.outbox.conftest import Place
from tests.outbox.sink import Sink, effects, requests
from tests.outbox.storm import Trouble, blowing

ALL = bool(os.environ.get("TAKEBACK_TEST_ALL"))
INTENTS = 20_000 if ALL else 300
EVERY_S = (1.0, 5.0) if ALL else (0.7, 2.0)
EACH = 25
ORDERS = 20

Property = Callable[[str, object], None]


@pytest.mark.timeout(7200)
def test_each_has_one_effect(place: Place, tmp_path: Path, record_property: Property) -> None:
    weather_the_storm(place, tmp_path, INTENTS, record_property)


def weather_the_storm(
    place: Place,
    tmp_path: Path,
    intents: int,
    note: Property,
    troubles: Sequence[Trouble] = (),
    last: Sequence[Trouble] = (),
) -> Counter[str]:
    """Defer, release and deliver so many while everything goes wrong; gives what did.

    `last` comes when all are released.
    """
    began = time.monotonic()
    sink = Sink(tmp_path / "sink", trouble=0.15)
    with blowing(place.root, sink, EVERY_S, troubles) as storm:
        released_at = released(place, sink, intents)
        storm.next += last
        while storm.next or unfinished(place):
            time.sleep(0.1)
    sink.kill()
    done = effects(sink.folder)
    assert sorted(effect["body"]["n"] for effect in done) == list(range(intents)), "one was lost, or doubled"
    assert len({effect["key"] for effect in done}) == intents
    assert all(effect["at"] >= released_at[effect["body"]["n"]] for effect in done), "before the commit"
    in_order: dict[int, list[int]] = defaultdict(list)
    for effect in done:
        if effect["body"]["n"] % 3:
            in_order[effect["body"]["order"]].append(effect["body"]["n"])
    assert all(order == sorted(order) for order in in_order.values())
    attempts = attempts_are_counted(place, requests(sink.folder))
    figures = {
        "intents": intents,
        "attempts": attempts,
        "requests": requests(sink.folder).total(),
        **storm.seen,
    }
    for name, figure in {**figures, "seconds": int(time.monotonic() - began)}.items():
        note(name, figure)
    return storm.seen


def released(place: Place, sink: Sink, intents: int) -> dict[int, float]:
    """Defer them all, a few in each run; gives the last moment at which each was not released yet."""
    before: dict[int, float] = {}
    for first in range(0, intents, EACH):
        with place.tb.run(f"batch {first}") as run:
            for n in range(first, first + EACH):
                body = {"n": n, "order": n % ORDERS}
                order = f"o{n % ORDERS}" if n % 3 else ""
                run.defer(
                    "http", "POST", sink.url("maybe"), json=body, order=order, timeout_s=0.5, tries=1000
                )
            before.update(dict.fromkeys(range(first, first + EACH), time.monotonic()))
    return before


def unfinished(place: Place) -> int:
    try:
        counts = place.tb.outbox.counts()
    except BackendError:
        return 1  # the server is away
    assert IntentState.DEAD not in counts
    return sum(counts.get(state, 0) for state in (IntentState.DUE, IntentState.QUEUED, IntentState.CLAIMED))


def attempts_are_counted(place: Place, came: Counter[str]) -> int:
    """What the receiver saw was counted. A worker that was killed before it had sent anything counts as well."""
    after, attempts = "", 0
    while page := place.tb.outbox.page(after=after, limit=1000):
        after = page[-1].id
        for queued in page:
            assert queued.state is IntentState.DELIVERED
            assert queued.attempts >= came[queued.deferred.delivery_key] > 0
            assert len(place.tb.outbox.attempts(queued.id)) == queued.attempts - 1
            attempts += queued.attempts
    return attempts
