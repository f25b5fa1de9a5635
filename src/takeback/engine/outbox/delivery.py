"""One attempt at delivering an intent: find its handler, call it, and judge the outcome."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from os import PathLike
from typing import Any

import msgspec

from takeback.core.change import ABSENT
from takeback.core.intents import AttemptOutcome, IntentAttempted, IntentDelivered, IntentDied, Queued
from takeback.core.values import plain, said, shortened, view
from takeback.engine.runs import declare
from takeback.errors import BackendError, DeliveryFailed, TakebackError, UsageError
from takeback.ports.clock import Clock
from takeback.resources.calls import handlers
from takeback.resources.calls.resource import Call, KnownCall, look
from takeback.senders import registry

Fetch = Callable[[Any, str], Any]
"""Returns a whole value, from its redacted view and the name of its blob."""


class Manner(msgspec.Struct, frozen=True):
    """The settings for deliveries on this machine."""

    first_pause_s: float = 1.0
    longest_pause_s: float = 3600.0
    smtp: str = ""
    sender: str = ""
    folder: str | PathLike[str] = "."


class Delivery:
    """The attempts at delivering intents."""

    def __init__(self, fetch: Fetch, clock: Clock, manner: Manner) -> None:
        self._fetch = fetch
        self._clock = clock
        self._manner = manner

    def __call__(self, queued: Queued) -> AttemptOutcome:
        """Make one attempt. Any error becomes an outcome."""
        attempt = queued.attempts + 1
        try:
            call = self.call(queued)
            send = self._sender(queued, call)
        except TakebackError as error:
            # Its arguments are lost, or there is no such function: retrying does not help.
            why = error.message + (f" ({error.hint})" if error.hint else "")
            return self._failed(queued, attempt, DeliveryFailed(why, permanent=True, unsure=False))
        try:
            if queued.unsure and (found := _found(queued, call)) is not ABSENT:
                return _delivered(queued, attempt, found, found=True)
            return _delivered(queued, attempt, send())
        except DeliveryFailed as failed:
            return self._failed(queued, attempt, failed)
        except (Exception, SystemExit) as error:  # noqa: BLE001  the user's function
            refused = isinstance(error, ConnectionRefusedError)
            return self._failed(queued, attempt, DeliveryFailed(said(error), unsure=not refused))

    def late(self, queued: Queued) -> AttemptOutcome:
        """Return the outcome of an attempt that did not end in time."""
        why = f"it had not ended after {queued.deferred.timeout_s:g} s"
        return self._failed(queued, queued.attempts + 1, DeliveryFailed(why))

    def call(self, queued: Queued) -> Call:
        """Return the call that the handlers of an intent get."""
        deferred = queued.deferred
        given = self._fetch(deferred.arguments, deferred.full)
        args, kwargs, key = given["args"], given["kwargs"], deferred.delivery_key
        return Call(deferred.name, args, kwargs, key, queued.result)

    def _sender(self, queued: Queued, call: Call) -> Callable[[], Any]:
        deferred = queued.deferred
        if deferred.handler in registry.BUILT_IN:
            m = self._manner
            one = registry.Sending(call.key, deferred.timeout_s, m.folder, m.smtp, m.sender)
            send = registry.sender(deferred.handler).send
            return lambda: send(one, *call.args, **call.kwargs)
        function = handlers.find(deferred.handler)
        return lambda: _called(function, call, queued.id)

    def _failed(self, queued: Queued, attempt: int, failed: DeliveryFailed) -> AttemptOutcome:
        why = view(failed.message)
        if failed.permanent or attempt >= queued.deferred.tries:
            return AttemptOutcome(queued, IntentDied(queued.id, attempt, why, unsure=failed.unsure))
        wait_s = self._pause_s(attempt) if failed.again_s is None else failed.again_s
        again_us = self._clock.now_us() + int(wait_s * 1e6)
        return AttemptOutcome(
            queued, IntentAttempted(queued.id, attempt, why, again_us, unsure=failed.unsure)
        )

    def _pause_s(self, attempt: int) -> float:
        return pause_s(self._manner, attempt)


def pause_s(manner: Manner, attempt: int) -> float:
    """Return the pause before the next attempt: doubled each time, with jitter to spread simultaneous failures."""
    longest_s: float = min(manner.longest_pause_s, manner.first_pause_s * 2 ** min(attempt - 1, 40))
    return longest_s * random.uniform(0.5, 1.5)


def known(queued: Queued, call: Call) -> KnownCall:
    return KnownCall(call, queued.deferred.undo, queued.deferred.check)


def _found(queued: Queued, call: Call) -> Any:
    """Return what the check finds of an attempt without an answer; ABSENT also if there is no check."""
    try:
        return look(known(queued, call)) if queued.deferred.check else ABSENT
    except BackendError as error:
        raise DeliveryFailed(f"its check failed: {error.message}") from error


def _called(function: declare.Function, call: Call, id: str) -> Any:
    token = declare.current.set((call, id))
    try:
        given = function(*call.args, **call.kwargs)
        if not inspect.isawaitable(given):
            return given
        import asyncio

        return asyncio.run(_awaited(given))
    finally:
        declare.current.reset(token)


async def _awaited(given: Any) -> Any:
    return await given


def _delivered(queued: Queued, attempt: int, result: Any, *, found: bool = False) -> AttemptOutcome:
    try:
        # Encoded and decoded, because a subclass of str may not be a plain string.
        kept = msgspec.json.decode(msgspec.json.encode(plain(result)))
    except (UsageError, TypeError, ValueError):
        kept = None  # it was delivered, although its result cannot be stored
    word = IntentDelivered(queued.id, attempt, shortened(view(kept)), found=found)
    return AttemptOutcome(queued, word, kept)
