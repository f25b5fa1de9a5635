"""The service that delivers an outbox: a worker with its webhooks, notifiers, metrics and health file.

Webhooks receive every event, notifiers what waits for a human, from a separate thread: a receiver that hangs does not
delay a delivery.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from takeback.core.export import iso
from takeback.core.intents import AttemptOutcome, IntentDied
from takeback.engine.outbox.delivery import Delivery
from takeback.engine.outbox.metrics import Instruments
from takeback.engine.outbox.webhooks import Audit
from takeback.engine.outbox.worker import Tally, Worker
from takeback.errors import BackendError, TakebackError
from takeback.ports.clock import Clock
from takeback.ports.outbox import Outbox

BEAT_S = 1.0
TELL_AGAIN_S = 60.0
"""How often the service tells of what waits, if nothing happens: others may have left something, or failed."""
LAST_S = 5.0
"""How long the end of a service waits for pending messages to webhooks. The next service sends the rest."""


class ServiceListener:
    """The reports of a working service. Each method does nothing unless it is overridden."""

    def told(self, outcome: AttemptOutcome) -> None:
        """Receive an outcome that was recorded."""

    def beat(self, tally: Tally) -> None:
        """Receive the progress, about once a second."""

    def away(self, error: BackendError) -> None:
        """Receive, once, that the store cannot be reached and the service waits for it."""

    def back(self) -> None:
        """Receive that the store can be reached again."""

    def failed(self, why: str) -> None:
        """Receive what a webhook or a notifier did not get, and why. Called from the thread that sends to them."""


class OutboxService:
    """A worker of one outbox, and all reports about its work."""

    def __init__(
        self,
        outbox: Outbox,
        deliver: Delivery,
        clock: Clock,
        audit: Audit,
        *,
        tell: Callable[[], list[str]] | None = None,
        health: Path | None = None,
        concurrency: int = 4,
        listener: ServiceListener | None = None,
    ) -> None:
        """Serve `outbox`. `tell` tells notifiers of dead letters and returns what failed; `health` is a file."""
        self._outbox = outbox
        self._audit = audit
        self._health = health
        self._listener = listener or ServiceListener()
        self._worker = Worker(
            outbox,
            deliver,
            clock,
            concurrency=concurrency,
            told=self._told,
            beat=self._beat,
            away=self._away,
        )
        self._instruments = Instruments(outbox)
        self._teller = _Teller(audit, tell, self._listener.failed)
        self._beaten = 0.0
        self._is_away = False

    @property
    def tally(self) -> Tally:
        """The counts so far."""
        return self._worker.tally

    @property
    def stop(self) -> threading.Event:
        """The event that stops the service after its current deliveries; nothing is lost."""
        return self._worker.stop

    @property
    def failures(self) -> list[str]:
        """What webhooks and notifiers did not receive, and why."""
        return self._teller.failures

    def check(self) -> None:
        """Raise UsageError if the settings of a webhook make no sense."""
        self._audit.check()

    def run(self, *, once: bool = False, run: str = "") -> Tally:
        """Deliver until `stop` is set; with `once`, until nothing is due now, of all runs or of one `run`.

        If the store is unreachable the service waits; with `once`, or after `stop` is set, that is an error. With
        `once` it also waits for the webhooks, but not for long if it delivers for one `run`.
        """
        self._teller.start()
        try:
            with self._instruments:
                return self._worker.run(once=once, run=run)
        finally:
            self._teller.close(wait=once and not run and not self.stop.is_set())
            if self._health:
                self._health.unlink(missing_ok=True)

    def _told(self, outcome: AttemptOutcome) -> None:
        self._instruments.count(outcome)
        if isinstance(outcome.word, IntentDied):
            self._teller.died()
        self._listener.told(outcome)

    def _beat(self, tally: Tally) -> None:
        now = time.monotonic()
        if now - self._beaten < BEAT_S and not self._is_away:
            return
        counts = self._outbox.counts() if self._health else {}
        self._beaten = now
        if self._is_away:
            self._is_away = False
            self._listener.back()
        self._write_health("running", counts={state.value: n for state, n in counts.items()})
        self._listener.beat(tally)

    def _away(self, error: BackendError) -> None:
        if not self._is_away:
            self._is_away = True
            self._listener.away(error)
        self._write_health("store-away", why=error.message)

    def _write_health(self, state: str, **more: Any) -> None:
        if not self._health:
            return
        at = iso(time.time_ns() // 1000)
        body = {"pid": os.getpid(), "state": state, "at": at, **more, **msgspec.to_builtins(self.tally)}
        fresh = self._health.with_name(f".{self._health.name}.{os.getpid()}")
        try:
            fresh.write_bytes(msgspec.json.encode(body))
            fresh.replace(self._health)
        except OSError as error:
            raise BackendError(f"{self._health} cannot be written: {error.strerror}") from error


class _Teller:
    """The thread that sends to webhooks and notifiers until it is closed, everything at least once."""

    def __init__(
        self, audit: Audit, tell: Callable[[], list[str]] | None, failed: Callable[[str], None]
    ) -> None:
        self.failures: list[str] = []
        self._audit = audit
        self._tell_waiting = tell
        self._tell_at_s = 0.0  # at once: somebody may have been told nothing so far
        self._heard = failed
        self._over = threading.Event()
        self._is_left = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._over.clear()
        self._thread = threading.Thread(target=self._run, name="takeback-teller", daemon=True)
        self._thread.start()

    def died(self) -> None:
        """Note that there is a dead letter to tell of."""
        self._tell_at_s = 0.0

    def close(self, *, wait: bool) -> None:
        """Send the rest; with `wait` all of it, otherwise what can be sent soon."""
        self._over.set()
        if self._thread:
            self._thread.join(None if wait else LAST_S)
            self._is_left = self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._tell()
            while not self._over.wait(BEAT_S):
                self._tell()
            self._tell()
        except Exception:
            if not self._is_left:  # an error because the workspace was closed meanwhile is not a failure
                raise

    def _tell(self) -> None:
        self._notify()
        try:
            for failed in self._audit.pump():
                self._failed(failed)
        except BackendError as error:
            # The worker reports an unreachable store. Nothing is lost: the journal is the queue.
            if not error.retryable:
                self._failed(error.message)
        except TakebackError as error:
            self._failed(error.message)
        except OSError as error:
            self._failed(f"the progress of the webhooks cannot be saved: {error.strerror}")

    def _notify(self) -> None:
        """Tell the notifiers of what waits, if that is due. Who was not reached is tried again after a while."""
        if self._tell_waiting is None or time.monotonic() < self._tell_at_s:
            return
        self._tell_at_s = time.monotonic() + TELL_AGAIN_S
        try:
            for failed in self._tell_waiting():
                self._failed(failed)
        except BackendError as error:
            # All of it still waits; only this telling failed. The worker reports an unreachable store.
            if not error.retryable:
                self._failed(error.message)
        except TakebackError as error:
            self._failed(error.message)

    def _failed(self, why: str) -> None:
        if not self._is_left and why not in self.failures[-1:]:
            self.failures.append(why)
            self._heard(why)
