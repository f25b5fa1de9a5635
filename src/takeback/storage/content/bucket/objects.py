"""The bytes of an object with blobs: a head, an index, then the blobs as stored in packs.

    head   = "takebackobjt", version u32, 1 if sealed u32, rows u32, bytes of the index u32, crc32 of these 28 bytes
             and the index u32                                                                      32 bytes
    index  = rows: digest 32 bytes, offset u32, stored length u32, raw length u32, codec u8, 3 zero bytes (48 each);
             encrypted as a whole if there is a key
    blobs  = compressed as the codec says (packs/record.py), each encrypted separately if there is a key

All numbers are little-endian; offsets count from the beginning of the object. So a machine without an index learns
the content of an object with one short request, and reads one blob with another.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from takeback.errors import FormatTooNew
from takeback.storage.content.bucket.encryption import Seal
from takeback.storage.content.packs.format import record
from takeback.storage.content.packs.format.record import PackRecord

MAGIC, VERSION = b"takebackobjt", 1
_HEAD = Struct("<12sIIII")
_CRC = Struct("<I")
_ROW = Struct("<32sIIIB3x")
HEAD_BYTES, ROW_BYTES = _HEAD.size + _CRC.size, _ROW.size

Piece = tuple[PackRecord, bytes]
"""A record of a pack, and its payload as stored there."""


class ObjectRow(NamedTuple):
    """The position of a blob in an object."""

    digest: bytes
    offset: int
    stored_bytes: int
    raw_bytes: int
    codec: int

    @property
    def end(self) -> int:
        return self.offset + self.stored_bytes


class Damaged(Exception):
    """An object that is not what was written. The text says what is wrong."""


def name_of(digests: Sequence[bytes], salt: bytes, seal: Seal) -> str:
    """Return the name of an object with these blobs. It depends on the digests and the salt alone."""
    return f"packs/{salt.hex()}-{seal.name(salt + b''.join(sorted(digests)))}"


def build(name: str, pieces: Sequence[Piece], seal: Seal) -> tuple[bytes, list[ObjectRow]]:
    """Return the bytes of an object, and its index."""
    payloads = [seal.close(payload, found.digest) for found, payload in pieces]
    # Encryption adds a fixed number of bytes, so a dummy index of zeros has the length of the real one.
    at = HEAD_BYTES + len(seal.close(bytes(ROW_BYTES * len(pieces)), b""))
    rows = []
    for (found, _), payload in zip(pieces, payloads, strict=True):
        rows.append(ObjectRow(found.digest, at, len(payload), found.raw_bytes, found.codec))
        at += len(payload)
    index = seal.close(b"".join(_ROW.pack(*row) for row in rows), name.encode())
    head = _HEAD.pack(MAGIC, VERSION, seal.is_sealed, len(rows), len(index))
    return b"".join((head, _CRC.pack(crc32(index, crc32(head))), index, *payloads)), rows


def index_end(data: bytes, name: str) -> int:
    """Return where the index ends, from the head at the start of these bytes."""
    if len(data) < HEAD_BYTES:
        raise Damaged("it is too short")
    magic, version, _, rows, index_bytes = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise Damaged("its head is damaged")
    if version > VERSION:
        raise FormatTooNew(
            f"{name} was written in format {version}; this Takeback reads up to {VERSION}",
            hint="use the newer Takeback that wrote it; nothing was changed",
        )
    if index_bytes < rows * ROW_BYTES:
        raise Damaged("its index is too short")
    return HEAD_BYTES + int(index_bytes)


def index(data: bytes, name: str, seal: Seal) -> list[ObjectRow]:
    """Return the index of an object, from its first bytes, which must include the whole index."""
    end = index_end(data, name)
    if len(data) < end:
        raise Damaged("its index is truncated")
    if _CRC.unpack_from(data, _HEAD.size)[0] != crc32(data[HEAD_BYTES:end], crc32(data[: _HEAD.size])):
        raise Damaged("the checksum of its index does not match")
    try:
        opened = seal.open(data[HEAD_BYTES:end], name.encode())
    except ValueError as error:
        raise Damaged(f"its index is damaged: {error}") from error
    if len(opened) % ROW_BYTES:
        raise Damaged("its index is damaged")
    return [ObjectRow(*found) for found in _ROW.iter_unpack(opened)]


def piece(row: ObjectRow, stored: bytes, seal: Seal) -> tuple[Piece, bytes]:
    """Return a blob as stored in packs, and its plain bytes, verified against the digest."""
    try:
        payload = seal.open(stored, row.digest)
        found = PackRecord(0, row.codec, row.raw_bytes, len(payload), row.digest)
        return (found, payload), record.open_payload(found, payload)
    except ValueError as error:
        raise Damaged(str(error)) from error
