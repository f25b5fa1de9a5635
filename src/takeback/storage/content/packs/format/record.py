"""The format of a pack: a short header, then records one after another.

    pack    = "takebackpack", version u32                                                         16 bytes
    record  = "TBr1", codec u8, 3 zero bytes, raw length u32, stored length u32, digest 32 bytes,
              crc32 of these 48 bytes u32                                                          52 bytes
              payload                                                                 stored length bytes

All numbers are little-endian. The codec is 0 raw, 1 zstd, 2 zstd compressed with more effort, 254 filler (bytes of an
interrupted write; skipped) or 255 end (the pack is sealed). An end record holds the number of blobs in place of the
raw length, and its own offset in place of a digest, so that a pack stored in a pack does not look like an end. The
digest is the blake3 of the raw bytes. So a record names and verifies itself: an index can be built from packs alone,
and after damage a reader resumes at the next header with a valid checksum.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple
from zlib import crc32

from blake3 import blake3

from takeback.errors import FormatTooNew
from takeback.storage.content.packs.format import zstd

PACK_MAGIC, PACK_VERSION = b"takebackpack", 1
PACK_HEAD_BYTES, HEAD_BYTES = 16, 52
FILLER, END = 254, 255
NO_DIGEST = bytes(32)

_PACK_HEAD = Struct("<12sI")
MAGIC = b"TBr1"
_BODY = Struct("<4sB3xII32s")
_CRC = Struct("<I")
_BODY_BYTES = _BODY.size
assert _PACK_HEAD.size == PACK_HEAD_BYTES and _BODY_BYTES + _CRC.size == HEAD_BYTES


class PackRecord(NamedTuple):
    """One record, with its offset in the pack."""

    offset: int
    codec: int
    raw_bytes: int
    stored_bytes: int
    digest: bytes

    @property
    def end(self) -> int:
        return self.offset + HEAD_BYTES + self.stored_bytes

    @property
    def is_blob(self) -> bool:
        return self.codec < FILLER


def pack_head() -> bytes:
    return _PACK_HEAD.pack(PACK_MAGIC, PACK_VERSION)


def is_pack(head: bytes, name: str) -> bool:
    """Return True if a file begins like a pack. Raise FormatTooNew if this version would misread it."""
    if len(head) < PACK_HEAD_BYTES:
        return False
    magic, version = _PACK_HEAD.unpack(head[:PACK_HEAD_BYTES])
    if magic == PACK_MAGIC and version > PACK_VERSION:
        raise FormatTooNew(
            f"{name} was written in format {version}; this Takeback reads up to {PACK_VERSION}",
            hint="use the newer Takeback that wrote it; nothing was changed",
        )
    return bool(magic == PACK_MAGIC and version == PACK_VERSION)


def head(codec: int, raw_bytes: int, stored_bytes: int, digest: bytes) -> bytes:
    """Return the header of a record."""
    body = _BODY.pack(MAGIC, codec, raw_bytes, stored_bytes, digest)
    return body + _CRC.pack(crc32(body))


def parse(data: bytes, offset: int) -> PackRecord | None:
    """Return the record whose header starts these bytes, found at `offset` of its pack; None if there is none."""
    body = data[:_BODY_BYTES]
    if len(data) < HEAD_BYTES or not body.startswith(MAGIC):
        return None
    if _CRC.unpack_from(data, _BODY_BYTES)[0] != crc32(body):
        return None
    _, codec, raw_bytes, stored_bytes, digest = _BODY.unpack(body)
    return PackRecord(offset, codec, raw_bytes, stored_bytes, digest)


def end_record(offset: int, count: int) -> bytes:
    """Return the end record, which seals a pack of `count` blobs."""
    return head(END, count, 0, offset.to_bytes(32, "little"))


def is_end(record: PackRecord) -> bool:
    return record.codec == END and record.digest == record.offset.to_bytes(32, "little")


def open_payload(record: PackRecord, payload: bytes) -> bytes:
    """Return the blob of a record, verified. Raise ValueError if it is damaged; the error says how."""
    if len(payload) != record.stored_bytes:
        raise ValueError("it is truncated")
    data = zstd.expand(record.codec, payload, record.raw_bytes)
    if len(data) != record.raw_bytes or blake3(data).digest() != record.digest:
        raise ValueError("its bytes do not match its digest")
    return data
