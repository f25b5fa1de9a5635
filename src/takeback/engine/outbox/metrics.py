"""What a worker tells OpenTelemetry, where its API is installed; else nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from takeback.core.intents import AttemptOutcome, IntentAttempted, IntentDelivered
from takeback.ports.outbox import Outbox


class Instruments:
    """The instruments of one worker."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._attempts: Any = None
        self._delay: Any = None
        try:
            from opentelemetry import metrics
        except ImportError:
            return
        meter = metrics.get_meter("takeback.outbox")
        self._attempts = meter.create_counter("takeback.outbox.attempts", description="Attempts by outcome")
        self._delay = meter.create_histogram(
            "takeback.outbox.delay", unit="s", description="From deferring to delivery"
        )
        meter.create_observable_gauge(
            "takeback.outbox.intents", [self._observe], description="Intents by state"
        )

    def count(self, outcome: AttemptOutcome) -> None:
        """One attempt has ended."""
        if self._attempts is None:
            return
        word, queued = outcome.word, outcome.queued
        ended = "delivered" if isinstance(word, IntentDelivered) else "dead"
        ended = "failed" if isinstance(word, IntentAttempted) else ended
        self._attempts.add(1, {"outcome": ended, "handler": queued.deferred.name})
        if isinstance(word, IntentDelivered):
            self._delay.record((time.time_ns() // 1000 - queued.deferred_us) / 1e6)

    def _observe(self, _options: Any) -> Iterable[Any]:
        from opentelemetry.metrics import Observation

        counts = self._outbox.counts()
        return [Observation(count, {"state": state.value}) for state, count in counts.items()]
