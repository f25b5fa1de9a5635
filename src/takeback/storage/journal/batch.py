"""Turning events into journal rows, and rows into records: the same for every implementation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import msgspec

from takeback.core import ids
from takeback.core.codec import digest
from takeback.core.events import EVENTS_VERSION, Event, RunBegan
from takeback.core.record import Envelope, Record, seal, unseal
from takeback.errors import CorruptionError, JournalMoved, LeaseLost, UsageError
from takeback.ports.journal import Head
from takeback.ports.relocation import Stored


class JournalRow(NamedTuple):
    """A record as it is stored: its bytes, their digest, and the columns used to find it."""

    seq: int
    stream: str
    n: int
    key: str
    digest: str
    body: bytes


PACK_BYTES = 16 << 10
"""From this size on a body is stored packed."""
PACKED = b"\x01"
"""What a packed body begins with, and JSON never does."""
REDUCED = b"\x02"
"""What is left of a compacted record begins with this."""


class Checked(NamedTuple):
    """What an earlier check has read: the records up to `seq`."""

    seq: int
    end_of: Callable[[str], Head]
    """Where a stream ended then."""


NOTHING = Head(0, "")
"""The end of a stream that has no records."""

FROM_THE_FIRST = Checked(0, lambda _: NOTHING)
"""No record was checked before."""

_VERIFY = "`takeback verify --all` shows what else is missing or damaged"

_encode = msgspec.json.Encoder(order="sorted").encode


class Batch(msgspec.Struct, frozen=True):
    """Events that a caller wants appended: all of them or none."""

    events: tuple[Event, ...]
    stream: str
    expect: int | None
    key: str

    def __post_init__(self) -> None:
        if not self.events:
            raise UsageError("no event to append. Nothing was recorded")
        if not self.stream and not isinstance(self.events[0], RunBegan):
            raise UsageError(
                f"a stream begins with RunBegan, not {type(self.events[0]).__name__}. Nothing was recorded",
                hint="name the stream that these events belong to",
            )

    def stream_at(self, seq: int) -> str:
        """Return the stream that the batch goes to if its first event is event `seq`."""
        return self.stream or ids.make(ids.RUN, seq)

    def seal(self, *, seq: int, head: Head, at_us: int) -> tuple[list[Stored], tuple[Record, ...]]:
        """Seal the events: number them from `seq` on, and chain them to the present end of their stream."""
        if self.expect is not None and self.expect != head.count:
            raise JournalMoved(
                f"{self.stream_at(seq)} has {head.count} records where {self.expect} were expected; "
                "another process appended first. Nothing was recorded",
                hint="read the journal again and decide again",
            )
        rows: list[Stored] = []
        records: list[Record] = []
        stream, key, n, prev = self.stream_at(seq), self.key, head.count, head.digest
        for event in self.events:
            n += 1
            body, name, envelope = _seal(Envelope(EVENTS_VERSION, seq, stream, n, prev, at_us, event, key))
            rows.append((seq, stream, n, key, name, body))
            records.append(Record(envelope, name))
            seq, prev = seq + 1, name
        return rows, tuple(records)

    def answer(self, earlier: tuple[Record, ...]) -> tuple[Record, ...]:
        """Return `earlier`, the records written under this key. Raise UsageError if they hold other events."""
        first, given = earlier[0], self.events
        if any(record.compacted_us for record in earlier):
            from takeback.core.compaction import reduced  # seldom needed

            given = tuple(reduced(e) if r.compacted_us else e for e, r in zip(given, earlier, strict=False))
            given += self.events[len(earlier) :]
        if first.stream != self.stream_at(first.seq) or not _same(given, [r.event for r in earlier]):
            raise UsageError(
                f"the key {self.key!r} was already used for something else, event {first.seq}. Nothing was recorded",
                hint="use one key for one operation, and another key for another operation",
            )
        return earlier


def _same(events: Sequence[Event], others: Sequence[Event]) -> bool:
    try:
        return [_encode(event) for event in events] == [_encode(event) for event in others]
    except (TypeError, ValueError):
        return False  # an event that cannot be encoded was never written


def _seal(envelope: Envelope) -> tuple[bytes, str, Envelope]:
    """Seal an event and read it back: an event that cannot be decoded would make the journal unreadable."""
    try:
        body, name = seal(envelope)
        return body, name, unseal(body, "the event")
    except (TypeError, ValueError, OverflowError, RecursionError, CorruptionError) as error:
        name, why = type(envelope.event).__name__, getattr(error, "message", error)
        raise UsageError(f"{name} cannot be stored: {why}. Nothing was recorded") from error


def record_of(row: Stored) -> Record:
    """Return the record of a row, checked against its digest and its columns; the counterpart of `seal`."""
    seq, stream, n, key, name, body = row
    if type(body) is bytes and body[:1] == REDUCED:
        from takeback.storage.journal import reduced  # most commands meet no compacted record

        return reduced.record_of(row)
    if type(body) is not bytes or digest(body) != name:
        raise CorruptionError(
            f"event {seq} was changed after it was written: its content does not match its digest",
            hint=_VERIFY,
        )
    envelope = unseal(body, f"event {seq}")
    if envelope.seq != seq or envelope.n != n or envelope.stream != stream or envelope.key != key:
        raise CorruptionError(
            f"event {seq} is in the wrong place: it was written as event {envelope.seq} of {envelope.stream}",
            hint=_VERIFY,
        )
    return Record(envelope, name)


def missing(place: int, stream: str | None = None) -> CorruptionError:
    """Return the error for a gap in the journal, or in one stream."""
    return CorruptionError(f"{_named(place, stream)} is missing from the journal", hint=_VERIFY)


def unreadable(place: int, stream: str | None, error: CorruptionError) -> CorruptionError:
    """Return the error for a record that the storage cannot read."""
    return CorruptionError(f"{_named(place, stream)} cannot be read: {error.message}", hint=_VERIFY)


def _named(place: int, stream: str | None) -> str:
    return f"event {place}" if stream is None else f"record {place} of {stream}"


_RESTORE = "`takeback verify --all` shows what is missing; restore the state folder from a backup"


def cut(last: int, anchored: int, hint: str = _RESTORE) -> CorruptionError:
    """Return the error for a journal that ends before its anchor does."""
    what, it = f"event {anchored} is", "it"
    if anchored > last + 1:
        what, it = f"events {last + 1} to {anchored} are", "them"
    return CorruptionError(
        f"{what} missing from the journal: the anchor lists {it}. Nothing was recorded; reading still works",
        hint=hint,
    )


def refuse_lost(fences: Collection[int], held: Collection[int]) -> None:
    """Raise LeaseLost if one of the writer's leases is no longer held."""
    if lost := [str(fence) for fence in fences if fence not in held]:
        raise LeaseLost(f"lease {', '.join(lost)} is no longer held; nothing was recorded")
