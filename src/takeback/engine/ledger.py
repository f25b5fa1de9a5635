"""The journal and what it says, kept together."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from takeback.core import ids
from takeback.core.events import Event
from takeback.core.history import History
from takeback.core.record import Record
from takeback.ports import Journal


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

    def append(self, events: Sequence[Event], stream: str = ids.WORKSPACE) -> tuple[Record, ...]:
        """Write events; from here they have happened."""
        with self._lock:
            records = self.journal.append(events, stream=stream)
            if records[0].seq != self.history.seq + 1:
                self.refresh()
            else:
                for record in records:
                    self.history.apply(record)
            return records
