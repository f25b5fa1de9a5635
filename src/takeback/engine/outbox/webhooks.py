"""Sending every event to webhooks: in order, signed, each message until it is received.

This does not use intents of the outbox: intents belong to runs, and an undo would find the sending as the last
thing that happened. The journal itself is the queue; only the position of each webhook is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from takeback.core.codec import digest
from takeback.core.event_feed import message
from takeback.core.redact import redact
from takeback.errors import DeliveryFailed
from takeback.ports.clock import Clock
from takeback.ports.journal import Journal
from takeback.senders import webhook
from takeback.senders.registry import Sending
from takeback.storage.state.webhook_marks import AuditMarks, WebhookMark
from takeback.system import crash_points

SENDING = crash_points.crash_point("audit-sending")
SENT = crash_points.crash_point("audit-sent")

TIMEOUT_S = 30.0
MESSAGES_MAX = 20
"""The most messages sent to one webhook before the worker turns to something else."""
SKIPPED_MAX = 10_000
"""After this many unwanted events the position is saved, so that they are not read again."""


class Webhook(msgspec.Struct, frozen=True):
    """A receiver of events."""

    url: str
    secret: str = ""
    types: tuple[str, ...] = ()
    """The types to send; if empty, all."""

    @property
    def name(self) -> str:
        """The stored name. Another address or other types make another webhook, which gets all events again."""
        return digest(msgspec.json.encode([self.url, sorted(self.types)])).partition(":")[2][:16]


class Audit:
    """The sender to the webhooks of one workspace."""

    def __init__(
        self,
        journal: Journal,
        marks: AuditMarks,
        clock: Clock,
        source: str,
        webhooks: Callable[[], Sequence[Webhook]],
        pause_s: Callable[[int], float],
    ) -> None:
        self._journal = journal
        self._marks = marks
        self._clock = clock
        self._source = source
        self._webhooks = webhooks
        self._pause_s = pause_s

    def check(self) -> None:
        """Raise UsageError if the settings of a webhook make no sense."""
        self._webhooks()

    def pump(self) -> list[str]:
        """Send new events to each webhook. Return the failures as text."""
        return [failed for one in self._webhooks() if (failed := self._tell(one))]

    def _tell(self, one: Webhook) -> str:
        with self._marks.alone(one.name) as alone:
            mark = self._marks.read(one.name)
            for _ in range(MESSAGES_MAX if alone else 0):
                if mark.again_us > self._clock.now_us():
                    break
                records = self._journal.read(after=mark.after)
                found = message(records, mark.after, one.types, mark.through)
                if not found.events:
                    if found.through - mark.after > SKIPPED_MAX:
                        self._marks.write(one.name, WebhookMark(found.through))
                    break
                if not mark.through:
                    mark = WebhookMark(mark.after, found.through)
                    self._marks.write(one.name, mark)
                crash_points.reach(SENDING)
                sending = Sending(found.key(self._source, one.name), TIMEOUT_S)
                try:
                    webhook.send(sending, one.url, found.payload(self._source), secret=one.secret)
                except DeliveryFailed as failed:
                    return self._failed(one, mark, failed)
                crash_points.reach(SENT)
                mark = WebhookMark(found.through)
                self._marks.write(one.name, mark)
        return ""

    def _failed(self, one: Webhook, mark: WebhookMark, failed: DeliveryFailed) -> str:
        """Note when to try again. A message is never given up: an audit log must not have a gap."""
        pause_s = self._pause_s(mark.failed + 1) if failed.again_s is None else failed.again_s
        why, again_us = redact(failed.message), self._clock.now_us() + int(pause_s * 1e6)
        self._marks.write(one.name, WebhookMark(mark.after, mark.through, mark.failed + 1, again_us, why))
        return f"{webhook.about(one.url, {})} did not accept events {mark.after + 1} to {mark.through}: {why}"
