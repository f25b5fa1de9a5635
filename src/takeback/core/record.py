"""The envelope around an event, and the chain that holds the envelopes together.

A record's bytes hold the event, its place in the workspace's sequence and in its stream, and the digest of the
record before it in that stream. The digest of a record is the digest of exactly those bytes, and these bytes are
what a journal stores. So whoever alters, inserts, moves or drops a record breaks a chain, unless they also
rewrite every later digest; that is what the anchor, kept in another file, is for.
"""

from __future__ import annotations

import msgspec

from takeback.core import ids
from takeback.core.codec import digest
from takeback.core.events import EVENTS_VERSION, ID_KIND, Event
from takeback.core.values import bare
from takeback.errors import CorruptionError, FormatTooNew


class Envelope(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """What is hashed and stored. `at_us` is microseconds since 1970, UTC."""

    v: int
    seq: int
    stream: str
    n: int
    prev: str
    at_us: int
    event: Event
    key: str = ""


class Record(msgspec.Struct, frozen=True, gc=False):
    """An event in its place in the journal."""

    envelope: Envelope
    digest: str

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
        """The id of what this event began, or nothing."""
        kind = ID_KIND.get(type(self.event))
        return ids.make(kind, self.seq) if kind else ""


def _kind_of_text(value: object) -> str:
    """What a field that should be a text is given as: an enum's value, or a text of a class of its own."""
    if isinstance(value, str):
        return bare(value)
    raise TypeError(f"an event cannot hold a {type(value).__name__}")


_encoder = msgspec.json.Encoder(order="sorted", enc_hook=_kind_of_text)
_decoder = msgspec.json.Decoder(Envelope)


class _Version(msgspec.Struct):
    v: int = 0


def seal(envelope: Envelope) -> tuple[bytes, str]:
    """The bytes to store, and their digest."""
    data = _encoder.encode(envelope)
    return data, digest(data)


def unseal(data: bytes, place: str) -> Envelope:
    """Read stored bytes. `place` is said in the error where they cannot be read."""
    try:
        envelope = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        _refuse_newer(_version_of(data), place)
        raise CorruptionError(
            f"{place} cannot be read: {error}", hint="`takeback verify` shows what else is damaged"
        ) from error
    _refuse_newer(envelope.v, place)
    return envelope


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
