"""The index of blobs: sorted, immutable files that are mapped and never parsed.

A row is a digest (32 bytes) and a location (16 bytes: pack, offset, raw length, stored length, each u32).

    run = "takebackindx", version u32, rows u32, fan-out bits u32, crc32 of what follows u32,
          crc32 of these 28 bytes u32                                                             32 bytes
          fan-out: 2^bits + 1 row numbers u32; rows that begin with the bits b are fan[b] up to fan[b + 1]
          rows, sorted by digest                                                             48 bytes each

A bucket has about eight rows, so a lookup reads two numbers and searches 400 bytes, however large the run.
New rows wait in the log (log.py). When the log is long it becomes a run, merged with the runs that are not much
larger, so the number of runs grows with the logarithm of the store. A row whose pack is gone is ignored.
"""

from __future__ import annotations

import mmap
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from struct import Struct, pack
from typing import NamedTuple
from zlib import crc32

from takeback.errors import FormatTooNew
from takeback.system import durable

RUN_ROWS_MAX = 1 << 18
"""Runs are not merged beyond this size, so that no merge takes long."""

ROW_BYTES, _DIGEST_BYTES = 48, 32
ROW = Struct("32s16s")
PACK_KEY = Struct("<I").pack
"""The pack number as the first bytes of a location."""

_MAGIC, _VERSION = b"takebackindx", 1
_HEAD = Struct("<12sIIII")
_CRC = Struct("<I")
_HEAD_BYTES = _HEAD.size + _CRC.size
_FAN = Struct("<II")
_PLACE = Struct("<IIII")
_BUCKET_ROWS = 8
_BITS_MIN, _BITS_MAX = 8, 24


class RecordLocation(NamedTuple):
    """The location of a record. `pack()` returns its form in rows."""

    number: int
    offset: int
    raw_bytes: int
    stored_bytes: int

    def pack(self) -> bytes:
        return _PLACE.pack(*self)

    @classmethod
    def unpack(cls, place: bytes) -> RecordLocation:
        return cls(*_PLACE.unpack(place))


Table = dict[bytes, bytes]
"""Maps digests to packed locations."""


class BadRun(Exception):
    """A run that cannot be used. It can be rebuilt from the packs."""


class IndexRun:
    """One sorted, mapped file."""

    def __init__(self, path: Path, number: int) -> None:
        self.number = number
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.bytes = os.fstat(fd).st_size
            if self.bytes < _HEAD_BYTES:
                raise BadRun("it is too short")
            self._map = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
        finally:
            os.close(fd)
        self.rows, bits, self._crc = _parse_head(self._map[:_HEAD_BYTES], path.name)
        self._intact: bool | None = None
        self._shift = 32 - bits
        self._base = _HEAD_BYTES + 4 * (2**bits + 1)
        if self.bytes != self._base + ROW_BYTES * self.rows:
            raise BadRun("its length is wrong")

    def find(self, digest: bytes) -> bytes | None:
        """Return the location of a digest."""
        bucket = int.from_bytes(digest[:4], "big") >> self._shift
        first, last = _FAN.unpack_from(self._map, _HEAD_BYTES + 4 * bucket)
        base = self._base
        at = self._map.find(digest, base + ROW_BYTES * first, base + ROW_BYTES * last)
        while at >= 0 and (at - base) % ROW_BYTES:  # a match across two rows
            at = self._map.find(digest, at + 1, base + ROW_BYTES * last)
        return self._map[at + _DIGEST_BYTES : at + ROW_BYTES] if at >= 0 else None

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Return every row."""
        return ROW.iter_unpack(self._map[self._base :])

    def is_intact(self) -> bool:
        """Return True if every byte is as it was written. Reads the whole file the first time."""
        if self._intact is None:
            self._intact = crc32(memoryview(self._map)[_HEAD_BYTES:]) == self._crc
        return self._intact

    def close(self) -> None:
        self._map.close()


def _parse_head(head: bytes, name: str) -> tuple[int, int, int]:
    magic, version, rows, bits, crc = _HEAD.unpack(head[: _HEAD.size])
    if magic == _MAGIC and version > _VERSION:
        raise FormatTooNew(
            f"{name} was written in format {version}; this Takeback reads up to {_VERSION}",
            hint="use the newer Takeback that wrote it; nothing was changed",
        )
    if magic != _MAGIC or _CRC.unpack(head[_HEAD.size :])[0] != crc32(head[: _HEAD.size]):
        raise BadRun("its header is damaged")
    return rows, bits, crc


def write_run(path: Path, table: Mapping[bytes, bytes]) -> None:
    """Write a run; its bytes are durable, its name is not yet."""
    rows = sorted(map(b"".join, table.items()))
    bits = min(_BITS_MAX, max(_BITS_MIN, (len(rows) // _BUCKET_ROWS).bit_length()))
    body = _fan_out(rows, bits) + b"".join(rows)
    head = _HEAD.pack(_MAGIC, _VERSION, len(rows), bits, crc32(body))
    durable.write_new(path, head + _CRC.pack(crc32(head)) + body)


def _fan_out(rows: Iterable[bytes], bits: int) -> bytes:
    shift = 32 - bits
    counts = Counter(int.from_bytes(row[:4], "big") >> shift for row in rows)
    bounds = accumulate((counts[bucket] for bucket in range(2**bits)), initial=0)
    return pack(f"<{2**bits + 1}I", *bounds)


def to_merge(runs: list[IndexRun], rows: int) -> list[IndexRun]:
    """Return the newest runs that a new run with this many rows should absorb, oldest first."""
    start = len(runs)
    while start and runs[start - 1].rows <= 2 * rows and rows + runs[start - 1].rows <= RUN_ROWS_MAX:
        start -= 1
        rows += runs[start].rows
    return runs[start:]


def merge(tables: Iterable[Iterable[tuple[bytes, bytes]]], packs: set[bytes]) -> Table:
    """Merge tables, later ones winning, without the rows of packs that are gone."""
    merged: Table = {}
    for table in tables:
        # Filter before merging: a stale row must not hide an older one that is still valid.
        merged.update(row for row in table if row[1][:4] in packs)
    return merged
