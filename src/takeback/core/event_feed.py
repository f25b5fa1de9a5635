"""Messages of events for a webhook. Each message says where the one before it ended, so that a gap is noticed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from takeback.core.codec import digest
from takeback.core.export import PREFIX, as_line, type_of
from takeback.core.record import Record

MOST = 100
"""The most events in one message."""


class Message(msgspec.Struct, frozen=True):
    """The wanted events behind `after`, up to and including `through`."""

    after: int
    through: int
    events: tuple[dict[str, Any], ...]

    def payload(self, source: str) -> dict[str, Any]:
        """Return the body: type, timestamp and data as in Standard Webhooks."""
        data = {"source": source, "after": self.after, "through": self.through, "events": list(self.events)}
        return {"type": f"{PREFIX}events", "timestamp": self.events[-1]["at"], "data": data}

    def key(self, source: str, name: str) -> str:
        """Return the id of the message, which is the same for every attempt."""
        return f"msg_{digest(f'{source} {name} {self.after}'.encode()).partition(':')[2][:32]}"


def message(records: Iterable[Record], after: int, types: Collection[str], through: int = 0) -> Message:
    """Return the next message from these records, which follow `after`. A message without events is not sent.

    With `through`, return the message that ends there, as it was attempted before.
    """
    last, found = after, []
    for record in records:
        last = record.seq
        if not types or type_of(record.event) in types:
            found.append(as_line(record))
        if last == through or (not through and len(found) == MOST):
            break
    return Message(after, last, tuple(found))
