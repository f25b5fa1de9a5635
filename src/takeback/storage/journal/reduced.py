"""Compacted records as rows: what is left of a record, in place of its body.

The columns stay as they are, and the digest is that of the bytes that the body had before. So it cannot be computed
from what is left: a checksum finds damage here, and the digests in the record of the compaction find tampering.
Such a body cannot be mistaken for another one: it begins with a byte that no JSON begins with.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import msgspec
from blake3 import blake3

from takeback.core import compaction
from takeback.core.codec import ALGORITHM
from takeback.core.record import Envelope, Record, seal_remains, unseal_remains
from takeback.errors import CorruptionError
from takeback.ports.relocation import Stored
from takeback.storage.journal.batch import REDUCED

_HEADER = struct.Struct("<c16sQ32s")
"""The byte, the checksum of the columns and of all that follows it, when it was planned, and the link."""
_CHECKED_FROM = 17
_NOTHING = bytes(32)


def is_reduced(row: Stored) -> bool:
    return row[5][:1] == REDUCED


def reduced(row: Stored, record: Record, planned_us: int) -> Stored:
    """Return a row with what is left of its record; the row itself if that is reduced already."""
    if is_reduced(row):
        return row
    envelope = msgspec.structs.replace(record.envelope, event=compaction.reduced(record.event))
    prev = bytes.fromhex(envelope.prev.removeprefix(f"{ALGORITHM}:")) or _NOTHING
    rest = seal_remains(envelope)
    body = _HEADER.pack(REDUCED, bytes(16), planned_us, prev) + rest
    return (*row[:5], REDUCED + _checksum(row, body) + body[_CHECKED_FROM:])


def record_of(row: Stored) -> Record:
    """Return what is left of the record of a row, checked against its checksum."""
    seq, stream, n, key, name, body = row
    if len(body) < _HEADER.size or _checksum(row, body) != body[1:_CHECKED_FROM]:
        raise CorruptionError(
            f"event {seq} was changed after it was compacted: what is left does not match its checksum",
            hint="`takeback verify --all` shows what else is missing or damaged",
        )
    _, _, planned_us, link = _HEADER.unpack_from(body)
    left = unseal_remains(body[_HEADER.size :], f"event {seq}")
    prev = "" if link == _NOTHING else f"{ALGORITHM}:{link.hex()}"
    return Record(Envelope(left.v, seq, stream, n, prev, left.at_us, left.event, key), name, planned_us)


def _checksum(row: Stored, body: bytes) -> bytes:
    columns = "\0".join(map(str, row[:5])).encode("utf-8", "surrogatepass")
    return blake3(columns + b"\0" + body[_CHECKED_FROM:]).digest(length=16)


def digest_of(rows: Iterable[Stored]) -> str:
    """Return the digest of what is left of some records, with the digests that they had before."""
    hasher = blake3()
    for row in rows:
        hasher.update(f"{row[4]} {len(row[5])} ".encode() + row[5])
    return f"{ALGORITHM}:{hasher.hexdigest()}"
