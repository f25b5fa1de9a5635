"""Which events go to a webhook in which message. Each message says where the one before it ended, so a gap shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from takeback.core.codec import digest
from takeback.core.export import PREFIX, as_line, type_of
from takeback.core.record import Record

MOST = 100
"""So many events are in a message."""


class Message(msgspec.Struct, frozen=True):
    """What is sent: of the events behind `after` up to `through`, those that are wanted."""

    after: int
    through: int
    events: tuple[dict[str, Any], ...]

    def payload(self, source: str) -> dict[str, Any]:
        """The body: what Standard Webhooks calls type, timestamp and data."""
        data = {"source": source, "after": self.after, "through": self.through, "events": list(self.events)}
        return {"type": f"{PREFIX}events", "timestamp": self.events[-1]["at"], "data": data}

    def key(self, source: str, name: str) -> str:
        """The id of the message, the same for every attempt at it."""
        return f"msg_{digest(f'{source} {name} {self.after}'.encode()).partition(':')[2][:32]}"


def message(records: Iterable[Record], after: int, types: Collection[str], through: int = 0) -> Message:
    """The next message from these records, which follow `after`; one without events is not worth sending.

    With `through` it is the one that ends there, as it was attempted before.
    """
    last, found = after, []
    for record in records:
        last = record.seq
        if not types or type_of(record.event) in types:
            found.append(as_line(record))
        if last == through or (not through and len(found) == MOST):
            break
    return Message(after, last, tuple(found))
