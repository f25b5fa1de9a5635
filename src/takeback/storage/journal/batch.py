"""How events become rows of a journal, and rows become records: the same for every implementation."""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
    """A record as it is stored: its bytes and their digest, and beside them what it is found by."""

    seq: int
    stream: str
    n: int
    key: str
    digest: str
    body: bytes


NOTHING = Head(0, "")
"""The end of a stream that has no records."""

_VERIFY = "`takeback verify` shows what else is missing or damaged"

_encode = msgspec.json.Encoder(order="sorted").encode


class Batch(msgspec.Struct, frozen=True):
    """Events that a caller wants appended, all or none."""

    events: tuple[Event, ...]
    stream: str
    expect: int | None
    key: str

    def __post_init__(self) -> None:
        if not self.events:
            raise UsageError("an append needs at least one event; nothing was recorded")
        if not self.stream and not isinstance(self.events[0], RunBegan):
            raise UsageError(
                f"a stream begins with RunBegan, not {type(self.events[0]).__name__}. Nothing was recorded",
                hint="name the stream that these events belong to",
            )

    def stream_at(self, seq: int) -> str:
        """The stream that the batch goes to if its first event is event `seq`."""
        return self.stream or ids.make(ids.RUN, seq)

    def seal(self, *, seq: int, head: Head, at_us: int) -> tuple[list[Stored], tuple[Record, ...]]:
        """Put the events in their places: from event `seq` on, after the present end of their stream."""
        if self.expect is not None and self.expect != head.count:
            raise JournalMoved(
                f"{self.stream_at(seq)} has {head.count} records where {self.expect} were expected; "
                "another process appended first. Nothing was recorded",
                hint="read the journal again and decide anew",
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
        """What was written under this key before; refused if that was something else."""
        first = earlier[0]
        if first.stream != self.stream_at(first.seq) or not _same(self.events, [r.event for r in earlier]):
            raise UsageError(
                f"the key {self.key!r} was used for something else, event {first.seq}. Nothing was recorded",
                hint="a key names one intent; use another one for another intent",
            )
        return earlier


def _same(events: Sequence[Event], others: Sequence[Event]) -> bool:
    try:
        return [_encode(event) for event in events] == [_encode(event) for event in others]
    except (TypeError, ValueError):
        return False  # what cannot be encoded was never written


def _seal(envelope: Envelope) -> tuple[bytes, str, Envelope]:
    """Seal it and read it back: an event that could not be read again would make the journal unreadable."""
    try:
        body, name = seal(envelope)
        return body, name, unseal(body, "the event")
    except (TypeError, ValueError, OverflowError, RecursionError, CorruptionError) as error:
        name, why = type(envelope.event).__name__, getattr(error, "message", error)
        raise UsageError(f"{name} cannot be kept: {why}. Nothing was recorded") from error


def record_of(row: Stored) -> Record:
    """The record in a row, checked against its digest and its columns; paired with the check in `seal`."""
    seq, stream, n, key, name, body = row
    if type(body) is not bytes or digest(body) != name:
        raise CorruptionError(
            f"event {seq} is not what was written: its content does not match its digest", hint=_VERIFY
        )
    envelope = unseal(body, f"event {seq}")
    if envelope.seq != seq or envelope.n != n or envelope.stream != stream or envelope.key != key:
        raise CorruptionError(
            f"event {seq} is not in its place: it was written as event {envelope.seq} of {envelope.stream}",
            hint=_VERIFY,
        )
    return Record(envelope, name)


def missing(place: int, stream: str | None = None) -> CorruptionError:
    """What to say of a gap: in the journal, or in one stream."""
    return CorruptionError(f"{_named(place, stream)} is missing from the journal", hint=_VERIFY)


def unreadable(place: int, stream: str | None, error: CorruptionError) -> CorruptionError:
    """What to say of a record that the storage does not give back."""
    return CorruptionError(f"{_named(place, stream)} cannot be read: {error.message}", hint=_VERIFY)


def _named(place: int, stream: str | None) -> str:
    return f"event {place}" if stream is None else f"record {place} of {stream}"


_RESTORE = "`takeback verify` shows what is missing; restore the state folder from a backup"


def cut(last: int, anchored: int, hint: str = _RESTORE) -> CorruptionError:
    """What to say where the journal ends before the anchor does."""
    what = f"event {anchored} is" if anchored == last + 1 else f"events {last + 1} to {anchored} are"
    return CorruptionError(
        f"{what} missing from the journal: the anchor knows more. Nothing was recorded; reading still works",
        hint=hint,
    )


def refuse_lost(fences: Collection[int], held: Collection[int]) -> None:
    """Refuse to write for somebody whose lease is not held any more."""
    if lost := [str(fence) for fence in fences if fence not in held]:
        raise LeaseLost(f"lease {', '.join(lost)} is not held any more; nothing was recorded")
