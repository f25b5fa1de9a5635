"""What every journal has, over the statements of its backend: reading, and ways to look and to write.

The outbox and the leases are built on these ways. Appending differs in more than statements: each backend has its
own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from takeback.core.events import Event
from takeback.core.record import Record
from takeback.ports.journal import Head
from takeback.ports.relocation import Stored
from takeback.storage.journal.batch import missing, record_of

Db = TypeVar("Db")
"""What the statements of a backend are carried out on."""
T = TypeVar("T")


HIGHEST = 2**63 - 1
"""No event has a higher number."""


class EventTable(ABC, Generic[Db]):
    """The statements of one backend with which events are read."""

    @abstractmethod
    def head(self, db: Db, stream: str | None = None) -> Head:
        """The end of the journal, or of one stream."""

    @abstractmethod
    def count_at(self, db: Db, stream: str, seq: int) -> int:
        """How many records the stream had when event `seq` was the last one."""

    @abstractmethod
    def get(self, db: Db, seq: int) -> Stored | None:
        """One event."""

    @abstractmethod
    def find(self, db: Db, key: str) -> tuple[Record, ...]:
        """What was appended under this key."""

    @abstractmethod
    def page(self, db: Db, start: int, end: int, stream: str | None = None) -> list[Stored]:
        """The next rows after place `start`, up to `end`: places in the journal, or in one stream."""


class StoredJournal(ABC, Generic[Db]):
    """A journal over the statements of one backend."""

    def __init__(self, events: EventTable[Db]) -> None:
        self.events = events

    @abstractmethod
    def ask(self, work: Callable[[Db], T]) -> T:
        """Look at the database. May be carried out again where a connection is lost: looking changes nothing."""

    @abstractmethod
    def change(self, work: Callable[[Db], T]) -> T:
        """Change what no event tells, in one transaction. May be carried out again where a connection is lost.

        It survives the end of this process when this returns.
        """

    @abstractmethod
    def decide(
        self, work: Callable[[Db], Sequence[Event]], *, durable: bool = True, seated: bool = False
    ) -> None:
        """Look and write in a transaction that holds the end of the journal, and append what `work` returns.

        Where a connection is lost it may be carried out again; what was recorded then counts once. `seated` says
        that only the place in which the workspace sits may do it: others can deliver, not undo. Where it is not
        `durable`, a power cut may undo it.
        """

    # Reading

    def read(self, *, after: int = 0, stream: str | None = None) -> Iterator[Record]:
        def look(db: Db) -> tuple[int, int]:
            seen, end = min(max(0, after), HIGHEST), self.events.head(db, stream).count
            return seen if stream is None else self.events.count_at(db, stream, seen), end

        return self._records(*self.ask(look), stream)

    def get(self, seq: int) -> Record | None:
        row = self.ask(lambda db: self.events.get(db, seq))
        return record_of(row) if row else None

    def find(self, key: str) -> tuple[Record, ...]:
        return self.ask(lambda db: self.events.find(db, key))

    def head(self, stream: str | None = None) -> Head:
        return self.ask(lambda db: self.events.head(db, stream))

    def stored(self, after: int, end: int, stream: str | None = None) -> Iterator[Stored]:
        """Rows as they are stored, by place; pages keep both memory and transactions short."""
        column = 0 if stream is None else 2
        while after < end:
            rows = self.page(after, end, stream)
            if not rows:
                raise missing(after + 1, stream)
            for row in rows:
                after += 1
                if row[column] != after:
                    raise missing(after, stream)
                yield row

    def page(self, after: int, end: int, stream: str | None = None) -> list[Stored]:
        """The next rows behind this place."""
        return self.ask(lambda db: self.events.page(db, after, end, stream))

    def _records(self, after: int, end: int, stream: str | None) -> Iterator[Record]:
        return (record_of(row) for row in self.stored(after, end, stream))
