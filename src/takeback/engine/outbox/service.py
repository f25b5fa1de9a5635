"""The service that delivers an outbox: a worker, with the webhooks, notifiers, metrics and health file beside it.

Webhooks hear of every event, notifiers of each dead letter, from a thread of their own: a receiver that hangs
does not hold up a delivery.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
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
LAST_S = 5.0
"""How long the end of a service waits for what is just being told. The next service tells what was not told."""


class ServiceListener:
    """What a service reports while it works; each method does nothing until a caller overrides it."""

    def told(self, outcome: AttemptOutcome) -> None:
        """Hear of an outcome that was recorded."""

    def beat(self, tally: Tally) -> None:
        """Hear how it goes, about once a second."""

    def away(self, error: BackendError) -> None:
        """Hear, once, that the store cannot be reached and is waited for."""

    def back(self) -> None:
        """Hear that the store can be reached again."""

    def failed(self, why: str) -> None:
        """Hear what a webhook or a notifier did not receive, and why. Called from the thread that tells them."""


class OutboxService:
    """A worker of one outbox, and everything that others hear of its work."""

    def __init__(
        self,
        outbox: Outbox,
        deliver: Delivery,
        clock: Clock,
        audit: Audit,
        *,
        source: str,
        notifiers: Callable[[], Sequence[str]] = tuple,
        health: Path | None = None,
        concurrency: int = 4,
        listener: ServiceListener | None = None,
    ) -> None:
        """`source` names the workspace in what notifiers receive; `health` is a file that says how it goes."""
        self._outbox = outbox
        self._source = source
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
        self._teller = _Teller(audit, notifiers, self._listener.failed)
        self._beaten = 0.0
        self._is_away = False

    @property
    def tally(self) -> Tally:
        """What it has done so far."""
        return self._worker.tally

    @property
    def stop(self) -> threading.Event:
        """What ends it when set: once its deliveries have ended, and nothing is lost."""
        return self._worker.stop

    @property
    def failures(self) -> list[str]:
        """What webhooks and notifiers did not receive, and why."""
        return self._teller.failures

    def run(self, *, once: bool = False, run: str = "") -> Tally:
        """Deliver until `stop` is set; with `once` until nothing is due now, of all or of one `run`.

        A store that is away is waited for; with `once`, or once `stop` is set, it is an error. With `once` it ends
        when the webhooks were told, too, but what delivers for one `run` does not wait long for them.
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
        word, queued = outcome.word, outcome.queued
        if isinstance(word, IntentDied):
            about = queued.deferred.about
            found = {"intent": queued.id, "run": queued.run, "what": about, "why": word.why}
            message = f"{self._source}: {queued.id}, {about}, failed for good: {word.why}"
            self._teller.letter(message, [found])
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
    """The thread that tells webhooks and notifiers until it is closed; everything once at least."""

    def __init__(
        self, audit: Audit, notifiers: Callable[[], Sequence[str]], failed: Callable[[str], None]
    ) -> None:
        self.failures: list[str] = []
        self._audit = audit
        self._notifiers = notifiers
        self._heard = failed
        self._letters: queue.SimpleQueue[tuple[str, list[Any]]] = queue.SimpleQueue()
        self._over = threading.Event()
        self._is_left = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to tell."""
        self._over.clear()
        self._thread = threading.Thread(target=self._run, name="takeback-teller", daemon=True)
        self._thread.start()

    def letter(self, message: str, found: list[Any]) -> None:
        """Tell the notifiers of a dead letter."""
        self._letters.put((message, found))

    def close(self, *, wait: bool) -> None:
        """Tell the rest; with `wait` all of it, else what can be told soon."""
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
            if not self._is_left:  # what it meets in a workspace that was closed meanwhile is not a failure
                raise

    def _tell(self) -> None:
        while not self._letters.empty():
            self._notify(*self._letters.get())
        try:
            for failed in self._audit.pump():
                self._failed(failed)
        except BackendError as error:
            # The worker reports a store that is away. Nothing is lost: the journal is the queue.
            if not error.retryable:
                self._failed(error.message)
        except TakebackError as error:
            self._failed(error.message)
        except OSError as error:
            self._failed(f"how far the webhooks are told cannot be noted: {error.strerror}")

    def _notify(self, message: str, found: list[Any]) -> None:
        from takeback.workflows.notify import send  # most services never have a dead letter

        try:
            notifiers = self._notifiers()
        except TakebackError as error:
            return self._failed(error.message)
        for notifier in notifiers:
            try:
                send(notifier, message, found)
            except BackendError as error:
                # It stays in the list of dead letters; only this way of telling it failed.
                self._failed(error.message)

    def _failed(self, why: str) -> None:
        if not self._is_left and why not in self.failures[-1:]:
            self.failures.append(why)
            self._heard(why)
