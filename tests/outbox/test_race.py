"""A rollback races with the delivery: cancelled and never sent, or sent and reported as sent."""

from __future__ import annotations

import os
import random
import time
from collections import Counter

import pytest

from takeback.core.intents import IntentState
from takeback.errors import RollbackIncomplete
from tests.outbox import tools, workers
from tests.outbox.conftest import Place

ROUNDS = 2000 if os.environ.get("TAKEBACK_TEST_ALL") else 40


HANDLERS = (tools.note, tools.note_with_undo, tools.note_slowly)


@pytest.mark.timeout(3600)
def test_never_both_and_never_neither(place: Place) -> None:
    race(place, ROUNDS)


def race(place: Place, rounds: int) -> None:
    chance = random.Random(11)
    outcomes: dict[str, str] = {}
    with workers.running(place.root, "--concurrency", "2") as worker:
        warm_up(place)
        for n in range(rounds):
            with place.tb.run(f"round {n}") as run:
                id = run.defer(HANDLERS[n % len(HANDLERS)], str(n))
            at_a_moment(place, id, chance)
            outcomes[str(n)] = taken_back(place, run.id)
        workers.stop(worker)
    sent = Counter(text for what, _, text in tools.said() if what == "sent")
    unsent = Counter(text for what, _, text in tools.said() if what == "unsent")
    for text, did in outcomes.items():
        expected = {"cancelled": (0, 0), "kept": (1, 0), "compensated": (1, 1)}[did]
        assert (sent[text], unsent[text]) == expected, (text, did)
    # All ends of the race were seen.
    assert {"cancelled", "kept", "compensated"} == set(outcomes.values())
    assert set(place.states()) == {IntentState.CANCELLED, IntentState.DELIVERED}


def at_a_moment(place: Place, id: str, chance: random.Random) -> None:
    """At once, soon, or just when a worker has taken it."""
    if chance.random() < 0.5:
        return time.sleep(chance.choice([0, chance.uniform(0, 0.03)]))
    while (queued := place.tb.outbox.get(id)) and queued.state is IntentState.DUE:
        time.sleep(0.001)
    time.sleep(chance.choice([0, chance.uniform(0, 0.03)]))


def warm_up(place: Place) -> None:
    """Wait until the worker works."""
    with place.tb.run("first") as run:
        run.defer(tools.note, "first")
    while IntentState.DELIVERED not in place.states():
        time.sleep(0.01)


def taken_back(place: Place, run: str) -> str:
    try:
        report = place.tb.undo(run)
    except RollbackIncomplete as error:
        report = error.report
    (item,) = [item for item in report.items if item.resource == "outbox"]
    return item.did
