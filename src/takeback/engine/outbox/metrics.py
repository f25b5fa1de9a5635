"""Metrics of a worker for OpenTelemetry, if its API is installed."""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from takeback.core.intents import AttemptOutcome, IntentAttempted, IntentDelivered
from takeback.ports.outbox import Outbox

_at_work: list[Outbox] = []
"""The outboxes with a worker in this process, which the gauge observes."""


@functools.cache
def _made() -> tuple[Any, Any]:
    """Return the attempts counter and the delay histogram, made once per process; None without OpenTelemetry."""
    try:
        from opentelemetry import metrics
    except ImportError:
        return None, None
    meter = metrics.get_meter("takeback.outbox")
    meter.create_observable_gauge("takeback.outbox.intents", [_observe], description="Intents by state")
    return (
        meter.create_counter("takeback.outbox.attempts", description="Attempts by outcome"),
        meter.create_histogram("takeback.outbox.delay", unit="s", description="From deferring to delivery"),
    )


def _observe(_options: Any) -> Iterable[Any]:
    from opentelemetry.metrics import Observation

    counts: Counter[str] = Counter()
    for outbox in {id(one): one for one in [*_at_work]}.values():
        counts.update({state.value: count for state, count in outbox.counts().items()})
    return [Observation(count, {"state": state}) for state, count in counts.items()]


class Instruments:
    """The instruments of one worker; in a `with` block the gauge observes its outbox."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._attempts, self._delay = _made()

    def __enter__(self) -> Instruments:
        _at_work.append(self._outbox)
        return self

    def __exit__(self, *_error: object) -> None:
        _at_work.remove(self._outbox)

    def count(self, outcome: AttemptOutcome) -> None:
        """Count one ended attempt."""
        if self._attempts is None:
            return
        word, queued = outcome.word, outcome.queued
        ended = "delivered" if isinstance(word, IntentDelivered) else "dead"
        ended = "failed" if isinstance(word, IntentAttempted) else ended
        self._attempts.add(1, {"outcome": ended, "handler": queued.deferred.name})
        if isinstance(word, IntentDelivered):
            self._delay.record((time.time_ns() // 1000 - queued.deferred_us) / 1e6)
