"""Intents for the tests of an outbox."""

from __future__ import annotations

import time
from collections.abc import Sequence

from takeback.core import ids
from takeback.core.events import RunBegan
from takeback.core.intents import (
    AttemptOutcome,
    IntentDeferred,
    IntentDelivered,
    IntentsReleased,
    IntentState,
    Queued,
)
from takeback.ports.journal import Journal
from takeback.ports.outbox import Outbox

LONG_S = 600.0
SHORT_S = 0.02


def intent(n: int, *, order: str = "", tries: int = 12) -> IntentDeferred:
    return IntentDeferred(
        "handler",
        "handler",
        f"key {n}",
        "a1",
        f"d{n}",
        arguments={"args": [n], "kwargs": {}},
        order=order,
        tries=tries,
    )


def defer(journal: Journal, count: int, *, order: str = "", tries: int = 12) -> list[str]:
    """Defer intents in a new run, and return their ids."""
    events = [intent(n, order=order, tries=tries) for n in range(count)]
    return [record.id for record in journal.append([RunBegan("run"), *events], stream="")[1:]]


def release(journal: Journal, every: Sequence[str]) -> None:
    journal.append([IntentsReleased(tuple(every))], stream=ids.WORKSPACE)


def released(journal: Journal, count: int, *, order: str = "", tries: int = 12) -> list[str]:
    every = defer(journal, count, order=order, tries=tries)
    release(journal, every)
    return every


def delivered(queued: Queued) -> AttemptOutcome:
    return AttemptOutcome(queued, IntentDelivered(queued.id, queued.attempts + 1))


def names(every: Sequence[Queued]) -> list[str]:
    return [queued.id for queued in every]


def state(outbox: Outbox, id: str) -> IntentState:
    found = outbox.get(id)
    assert found
    return found.state


def claimed_again(outbox: Outbox, id: str) -> Queued:
    """Claim an intent for another worker, once the lease has expired."""
    while True:
        for queued in outbox.claim("other", 1, LONG_S):
            assert queued.id == id
            return queued
        time.sleep(SHORT_S / 4)
