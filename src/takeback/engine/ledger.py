"""The journal and what it says, kept together."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence

import msgspec

from takeback.core import ids
from takeback.core.events import Event
from takeback.core.history import History
from takeback.core.record import Record
from takeback.core.redact import redact
from takeback.ports import Journal

WORDS = ("why", "note", "message")
"""What people and errors say, in any event that has it."""


class Ledger:
    """Appends events and keeps the fold of all of them at hand."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.history = History()
        self._lock = threading.RLock()  # the steps of a run may be in several threads

    def refresh(self) -> History:
        """Take in what others appended."""
        with self._lock:
            for record in self.journal.read(after=self.history.seq):
                self.history.apply(record)
            return self.history

    def append(
        self, events: Sequence[Event], stream: str = ids.WORKSPACE, *, durable: bool = True
    ) -> tuple[Record, ...]:
        """Write events; from here they have happened."""
        events = [_without_secrets(event) for event in events]
        with self._lock:
            records = self.journal.append(events, stream=stream, durable=durable)
            if records[0].seq != self.history.seq + 1:
                self.refresh()
            else:
                for record in records:
                    self.history.apply(record)
            return records


def _without_secrets(event: Event) -> Event:
    """An exception may have the password of a database in it, and so may what somebody was told about it."""
    said = {word: text for word in _words_of(type(event)) if (text := getattr(event, word))}
    if not said:
        return event
    shown = {word: redact(text) for word, text in said.items()}
    return event if shown == said else msgspec.structs.replace(event, **shown)


@functools.cache
def _words_of(kind: type) -> tuple[str, ...]:
    return tuple(word for word in WORDS if word in kind.__struct_fields__)  # type: ignore[attr-defined]
