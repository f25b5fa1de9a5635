"""The envelope around an event, and the chain that holds the envelopes together.

A record's bytes hold the event, its place in the workspace's sequence and in its stream, and the digest of the
record before it in that stream. The digest of a record is the digest of exactly those bytes, which are what a
journal stores. Altering, inserting, moving or dropping a record therefore breaks a chain, unless every later
digest is rewritten too. The anchor, kept in another file, detects that.

A compacted record has only what audit needs of its event, and keeps the digest of the bytes that it had before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from takeback.core import ids
from takeback.core.codec import digest
from takeback.core.events import ANSWER, EVENTS_VERSION, ID_KIND, ActionNoted, ContentForgotten, Event
from takeback.core.values import bare
from takeback.errors import CorruptionError, FormatTooNew


class Envelope(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """The content that is hashed and stored. `at_us` is microseconds since 1970, UTC."""

    v: int
    seq: int
    stream: str
    n: int
    prev: str
    at_us: int
    event: Event
    key: str = ""


class Record(msgspec.Struct, frozen=True, gc=False):
    """An event at its place in the journal."""

    envelope: Envelope
    digest: str
    compacted_us: int = 0
    """When it was decided to compact it: then this is what is left of its event. 0 if it is whole."""

    @property
    def seq(self) -> int:
        return self.envelope.seq

    @property
    def stream(self) -> str:
        return self.envelope.stream

    @property
    def at_us(self) -> int:
        return self.envelope.at_us

    @property
    def event(self) -> Event:
        return self.envelope.event

    @property
    def id(self) -> str:
        """The id of what this event began; empty if it began nothing."""
        kind = ID_KIND.get(type(self.event))
        return ids.make(kind, self.seq) if kind else ""


def contents_named(records: Iterable[Record], answers_since_us: int = 0) -> set[bytes]:
    """Return the names of the content that holds arguments and results of calls, without what was forgotten since.

    Answers of models that are older than that are left out: they only save a resumed thread from asking again.
    """
    found: set[bytes] = set()
    for record in records:
        if isinstance(record.event, ContentForgotten):
            found -= record.event.names
        elif full := getattr(record.event, "full", ""):
            is_answer = isinstance(record.event, ActionNoted) and record.event.tool == ANSWER
            if not is_answer or record.at_us >= answers_since_us:
                found.add(bytes.fromhex(full))
    return found


def _kind_of_text(value: object) -> str:
    """Return the plain text of an enum or of an instance of a subclass of str."""
    if isinstance(value, str):
        return bare(value)
    raise TypeError(f"an event cannot hold a {type(value).__name__}")


Stored = TypeVar("Stored", Envelope, "Remains")

_encoder = msgspec.json.Encoder(order="sorted", enc_hook=_kind_of_text)
_decoder = msgspec.json.Decoder(Envelope)


class Remains(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What is stored of a compacted record, apart from its columns, its links and the time."""

    v: int
    at_us: int
    event: Event


_remains_decoder = msgspec.json.Decoder(Remains)


def seal_remains(envelope: Envelope) -> bytes:
    """Return the bytes that are left of a record whose event was compacted."""
    return _encoder.encode(Remains(envelope.v, envelope.at_us, envelope.event))


def unseal_remains(data: bytes, place: str) -> Remains:
    """Decode what is left of a compacted record."""
    return _decoded(_remains_decoder, data, place)


class _Version(msgspec.Struct):
    v: int = 0


def seal(envelope: Envelope) -> tuple[bytes, str]:
    """Return the bytes to store, and their digest."""
    data = _encoder.encode(envelope)
    return data, digest(data)


def unseal(data: bytes, place: str) -> Envelope:
    """Decode stored bytes. `place` names them in the error if they cannot be read."""
    return _decoded(_decoder, data, place)


def _decoded(decoder: msgspec.json.Decoder[Stored], data: bytes, place: str) -> Stored:
    try:
        found = decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        _refuse_newer(_version_of(data), place)
        raise CorruptionError(
            f"{place} cannot be read: {error}", hint="`takeback verify --all` shows what else is damaged"
        ) from error
    _refuse_newer(found.v, place)
    return found


def _refuse_newer(version: int, place: str) -> None:
    if version > EVENTS_VERSION:
        raise FormatTooNew(
            f"{place} was written in event format {version}; this program reads up to {EVENTS_VERSION}. "
            "Nothing was changed",
            hint="upgrade Takeback",
        )


def _version_of(data: bytes) -> int:
    try:
        return msgspec.json.decode(data, type=_Version).v
    except (msgspec.DecodeError, UnicodeDecodeError):
        return 0
