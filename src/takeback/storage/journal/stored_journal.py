"""The common part of all journals, over the statements of a backend: reading, and ways to query and to write.

The outbox and the leases are built on these. Appending differs in more than statements, so each backend has its
own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

from takeback.core.events import Event
from takeback.core.record import Record
from takeback.ports.journal import Head
from takeback.ports.relocation import Stored
from takeback.storage.journal.batch import FROM_THE_FIRST, PACK_BYTES, PACKED, Checked, missing, record_of

if TYPE_CHECKING:
    from takeback.storage.journal.packed import Packer

Db = TypeVar("Db")
"""The connection on which a backend runs its statements."""
T = TypeVar("T")


HIGHEST = 2**63 - 1
"""The highest possible event number."""


Find = Callable[[int], Stored | None]
"""A row by its number, whole."""


def whole(row: Stored, find: Find) -> Stored:
    """Return a row with exactly the bytes that its digest names. `find` returns those that it is stored against."""
    body = row[5]
    if type(body) is not bytes or body[:1] != PACKED:
        return row
    from takeback.storage.journal.packed import unpacked  # most commands meet no big record

    return unpacked(row, find)


class Unpacker:
    """Makes rows whole, one after the other. The last big one is kept: the next is often stored against it."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._last: Stored | None = None

    def whole(self, row: Stored) -> Stored:
        found = whole(row, self._known)
        if found is not row:
            self._last = found
        return found

    def _known(self, seq: int) -> Stored | None:
        return self._last if self._last and self._last[0] == seq else self._find(seq)


class EventTable(ABC, Generic[Db]):
    """The statements of one backend that read events."""

    @abstractmethod
    def head(self, db: Db, stream: str | None = None) -> Head:
        """Return the end of the journal, or of one stream."""

    @abstractmethod
    def head_at(self, db: Db, stream: str, seq: int) -> Head:
        """Return the end that the stream had when event `seq` was the last one."""

    @abstractmethod
    def row(self, db: Db, seq: int) -> Stored | None:
        """One event as it is stored: its body may be packed."""

    def pick(self, db: Db, seqs: Sequence[int]) -> list[Stored]:
        """Return these events, those of them that there are, in the order of their numbers."""
        return [self.whole(db, row) for row in self.rows(db, seqs)]

    def rows(self, db: Db, seqs: Sequence[int]) -> list[Stored]:
        """Return these events as they are stored, in the order of their numbers."""
        return [row for seq in sorted(set(seqs)) if (row := self.row(db, seq))]

    @abstractmethod
    def keyed(self, db: Db, key: str) -> Iterable[Stored]:
        """The rows that were appended under this key, as they are stored."""

    @abstractmethod
    def page(self, db: Db, start: int, end: int, stream: str | None = None) -> list[Stored]:
        """The next rows after place `start`, up to `end`: places in the journal, or in one stream.

        As they are stored: a page of packed rows is small, and would be big if all were unpacked at once.
        """

    @abstractmethod
    def replace(self, db: Db, rows: Sequence[Stored]) -> None:
        """Store these bodies in place of those that are there, except where one is reduced already."""

    @abstractmethod
    def packed_heads(self, db: Db, after: int) -> list[tuple[int, bytes]]:
        """Return the numbers of the packed rows after this one, each with the beginning of its body."""

    def get(self, db: Db, seq: int) -> Stored | None:
        """One event, whole."""
        row = self.row(db, seq)
        return self.whole(db, row) if row else None

    def find(self, db: Db, key: str) -> tuple[Record, ...]:
        """What was appended under this key."""
        return tuple(record_of(self.whole(db, row)) for row in self.keyed(db, key))

    def whole(self, db: Db, row: Stored) -> Stored:
        """The row with exactly the bytes that its digest names."""
        return whole(row, lambda seq: self.get(db, seq))


class StoredJournal(ABC, Generic[Db]):
    """A journal over the statements of one backend."""

    def __init__(self, events: EventTable[Db]) -> None:
        self.events = events

    @abstractmethod
    def append(
        self,
        events: Sequence[Event],
        *,
        stream: str,
        expect: int | None = None,
        key: str = "",
        durable: bool = True,
        fences: Collection[int] = (),
    ) -> tuple[Record, ...]:
        """Append events: see `takeback.ports.journal.Journal`."""

    @abstractmethod
    def ask(self, work: Callable[[Db], T]) -> T:
        """Query the database. `work` may run again after a lost connection, so it must change nothing."""

    @abstractmethod
    def change(self, work: Callable[[Db], T]) -> T:
        """Change what no event records, in one transaction. `work` may run again after a lost connection.

        The change survives the end of this process once this returns.
        """

    @abstractmethod
    def decide(
        self, work: Callable[[Db], Sequence[Event]], *, durable: bool = True, seated: bool = False
    ) -> None:
        """Run `work` in a transaction that locks the end of the journal, and append the events that it returns.

        `work` may run again after a lost connection, so it must be idempotent; its events are recorded once. With
        `seated`, only the folder that holds the seat may do this (undoing); otherwise any folder may (delivering).
        Without `durable`, a power cut may undo it.
        """

    def packed(self, db: Db, rows: Sequence[Stored], records: Sequence[Record]) -> Sequence[Stored]:
        """These rows as they are to be stored: the big ones packed."""
        if all(len(row[5]) < PACK_BYTES for row in rows):
            return rows
        return self._packer.pack(rows, records, lambda seq: self.events.row(db, seq))

    @cached_property
    def _packer(self) -> Packer:
        from takeback.storage.journal.packed import Packer

        return Packer()

    # Reading

    def read(self, *, after: int = 0, stream: str | None = None) -> Iterator[Record]:
        def look(db: Db) -> tuple[int, int]:
            seen, end = min(max(0, after), HIGHEST), self.events.head(db, stream).count
            return seen if stream is None else self.events.head_at(db, stream, seen).count, end

        return self._records(*self.ask(look), stream)

    def get(self, seq: int) -> Record | None:
        row = self.ask(lambda db: self.events.get(db, seq))
        return record_of(row) if row else None

    def pick(self, seqs: Sequence[int]) -> list[Record]:
        wanted = [seq for seq in seqs if 0 < seq <= HIGHEST]
        return [record_of(row) for row in self.ask(lambda db: self.events.pick(db, wanted))] if wanted else []

    def find(self, key: str) -> tuple[Record, ...]:
        return self.ask(lambda db: self.events.find(db, key))

    def head(self, stream: str | None = None) -> Head:
        return self.ask(lambda db: self.events.head(db, stream))

    def stored(self, after: int, end: int, stream: str | None = None) -> Iterator[Stored]:
        """Rows, whole, by place; pages keep both memory and transactions short."""
        column = 0 if stream is None else 2
        unpacker = self.unpacker()
        while after < end:
            rows = self.page(after, end, stream)
            if not rows:
                raise missing(after + 1, stream)
            for row in rows:
                after += 1
                if row[column] != after:
                    raise missing(after, stream)
                yield unpacker.whole(row)

    def checked(self, since: int) -> Checked:
        """What an audit of the records behind this one has to know of those before it."""
        if not since:
            return FROM_THE_FIRST
        return Checked(since, lambda stream: self.ask(lambda db: self.events.head_at(db, stream, since)))

    def unpacker(self) -> Unpacker:
        """For whoever goes through pages."""
        return Unpacker(lambda seq: self.ask(lambda db: self.events.get(db, seq)))

    def page(self, after: int, end: int, stream: str | None = None) -> list[Stored]:
        """The next rows behind this place, as they are stored."""
        return self.ask(lambda db: self.events.page(db, after, end, stream))

    def _records(self, after: int, end: int, stream: str | None) -> Iterator[Record]:
        return (record_of(row) for row in self.stored(after, end, stream))
