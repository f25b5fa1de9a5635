"""The newest rows of the index: a flat file of frames, each the outcome of one sync.

    frame = "TBf1", crc32 of the rest u32, pack u32, its durable end u32, blobs in the pack so far u32,
            1 if the pack is sealed u32, rows u32                                                28 bytes
            rows (index.py)                                                                 48 bytes each

A frame is written after its pack was synced, and is not synced itself. So a readable frame describes durable
records, and a frame lost in a power cut is rebuilt from the pack's tail (recovery.py). An end of 0 says that the
pack was removed; that frame is synced before the pack is unlinked.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple
from zlib import crc32

import msgspec

from takeback.storage.content.packs.format.index import ROW_BYTES

_MAGIC = b"TBf1"
_START = Struct("<4sI")
_HEAD = Struct("<IIIII")
_FRAME_BYTES = _START.size + _HEAD.size


class Pack(msgspec.Struct, frozen=True, array_like=True):
    """What is known about a pack: its durable end, how many blobs it has, and whether it is sealed."""

    number: int
    end: int
    blobs: int
    sealed: bool

    @classmethod
    def removed(cls, number: int) -> Pack:
        return cls(number, 0, 0, True)


class Frame(NamedTuple):
    pack: Pack
    rows: bytes


def encode(frame: Frame) -> bytes:
    pack, rows = frame
    rest = _HEAD.pack(pack.number, pack.end, pack.blobs, pack.sealed, len(rows) // ROW_BYTES) + rows
    return _START.pack(_MAGIC, crc32(rest)) + rest


def decode(data: bytes) -> Iterator[tuple[Frame, int]]:
    """Yield each whole frame with the position after it, up to the first torn one."""
    at = 0
    while at + _FRAME_BYTES <= len(data):
        magic, crc = _START.unpack_from(data, at)
        number, end, blobs, sealed, count = _HEAD.unpack_from(data, at + _START.size)
        stop = at + _FRAME_BYTES + ROW_BYTES * count
        if magic != _MAGIC or stop > len(data) or crc32(data[at + _START.size : stop]) != crc:
            return
        yield Frame(Pack(number, end, blobs, bool(sealed)), data[at + _FRAME_BYTES : stop]), stop
        at = stop
