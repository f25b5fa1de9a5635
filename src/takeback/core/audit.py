"""Which events go to which webhook, in which message: each says where the one before it ended, so a gap shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from takeback.core.events import RunBegan
from takeback.core.export import PREFIX, as_line, type_of
from takeback.core.intents import IntentDeferred, IntentEvent
from takeback.core.record import Record

NAME = "audit"
ORDER = "audit:"
"""What the ordering keys of audit messages begin with; behind it is the name of the webhook."""
MOST = 100
"""So many events are in a message."""


class Message(msgspec.Struct, frozen=True):
    """What is sent: the events behind `after` up to `through`, of those that are wanted."""

    after: int
    through: int
    events: tuple[dict[str, Any], ...]

    def payload(self, source: str) -> dict[str, Any]:
        """The body: what Standard Webhooks calls type, timestamp and data."""
        data = {"source": source, "after": self.after, "through": self.through, "events": list(self.events)}
        return {"type": f"{PREFIX}events", "timestamp": self.events[-1]["at"], "data": data}


def is_own(record: Record, runs: Collection[str]) -> bool:
    """Whether an event only tells of this telling, of which there would be no end."""
    event = record.event
    if record.stream in runs:
        return True
    return isinstance(event, IntentEvent) and getattr(event, "intent", "") in runs


def message(records: Iterable[Record], after: int, types: Collection[str], own: set[str]) -> Message | None:
    """The next message from these records, which follow `after`; nothing where there is none to be told.

    `own` are the runs and intents of earlier messages; those that are met here are added.
    """
    through, found = after, []
    for record in records:
        note_own(record, own)
        if not is_own(record, own) and (not types or type_of(record.event) in types):
            found.append(as_line(record))
        through = record.seq
        if len(found) == MOST:
            break
    return Message(after, through, tuple(found)) if found else None


def note_own(record: Record, own: set[str]) -> None:
    event = record.event
    if isinstance(event, RunBegan) and event.session == NAME and event.detached:
        own.add(record.stream)
    elif isinstance(event, IntentDeferred) and event.order.startswith(ORDER):
        own.add(record.id)
