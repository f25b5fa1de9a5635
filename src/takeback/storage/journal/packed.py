"""Big records as small rows: the body of a record of many changes is stored compressed.

The digest and the chain are over the bytes before compression, so nothing above the statements of a backend knows of
this. A record that repeats most of an earlier one, as the plan of a rollback repeats the action that it takes back,
is stored as what differs from that one, its base. A base may have a base itself, but no more than `DEPTH_MAX` other
rows are ever read to make one whole. A row can always be stored as it is, whatever its size.

A packed body cannot be mistaken for another one: it begins with a byte that no JSON begins with.

Imported by whoever meets a big record: most commands meet none.
"""

from __future__ import annotations

import struct
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from takeback.core import ids
from takeback.core.codec import ALGORITHM, digest
from takeback.core.events import Event, RollbackBegan, RollbackEnded
from takeback.core.record import Record
from takeback.errors import CorruptionError
from takeback.ports.relocation import Stored
from takeback.storage.journal.batch import PACK_BYTES, PACKED

if sys.version_info >= (3, 14):
    from compression.zstd import (
        CompressionParameter,
        DecompressionParameter,
        ZstdDecompressor,
        ZstdDict,
        ZstdError,
        compress,
    )
else:
    from backports.zstd import (
        CompressionParameter,
        DecompressionParameter,
        ZstdDecompressor,
        ZstdDict,
        ZstdError,
        compress,
    )

BASE_BYTES = 256 << 10
"""A smaller body neither has a base nor is one."""
DEPTH_MAX = 2
WINDOW_LOG_MAX = 30
"""How far back what repeats is found. A reader accepts no more."""

_LEVEL = 1
_MATCH_MIN, _RATE_LOG, _TABLE_LOG_MAX = 48, 5, 24

_HEADER = struct.Struct("<cBQQ32s")
_BASE_PAYS_BELOW = 0.7

Find = Callable[[int], Stored | None]
"""A row by its number."""


class _Header(NamedTuple):
    """What stands before the compressed bytes. Without a base its number is 0."""

    magic: bytes
    depth: int
    """How many other rows are read to make this one whole."""
    size: int
    base: int
    base_digest: bytes

    @classmethod
    def of(cls, body: bytes) -> _Header | None:
        """Return the header of a packed body; None for a body that is stored as it is."""
        if body[:1] != PACKED or len(body) < _HEADER.size:
            return None
        return cls._make(_HEADER.unpack_from(body))


class Packer:
    """Packs what one journal writes."""

    def __init__(self) -> None:
        self._last = 0
        """The last record written here that can be a base."""

    def pack(self, rows: Sequence[Stored], records: Sequence[Record], find: Find) -> Sequence[Stored]:
        """Return these rows as they are to be stored. `find` returns a row that is there, as it is stored."""
        fresh = {row[0]: row for row in rows}
        packed: dict[int, Stored] = {}

        def stored(seq: int) -> Stored | None:
            return packed.get(seq) if seq in fresh else find(seq)

        def whole(seq: int) -> Stored | None:
            row = fresh.get(seq) or find(seq)
            return unpacked(row, whole) if row else None

        for row, record in zip(rows, records, strict=True):
            packed[row[0]] = (*row[:5], self._packed(row, record.event, stored, whole))
        return list(packed.values())

    def _packed(self, row: Stored, event: Event, stored: Find, whole: Find) -> bytes:
        seq, body = row[0], row[5]
        if len(body) < PACK_BYTES:
            return body
        small = _packed(body)  # JSON always gets smaller
        if len(body) >= BASE_BYTES:
            base = _base(akin(event) or self._last, seq, stored, whole)
            if base:
                against = _packed(body, *base)
                small = against if len(against) < len(small) * _BASE_PAYS_BELOW else small
            self._last = seq
        return small


def akin(event: Event) -> int:
    """Return the number of the record that this event is likely to repeat; 0 where nothing tells."""
    match event:
        case RollbackEnded():
            return ids.seq_of(event.rollback) if ids.is_id(event.rollback) else 0
        case RollbackBegan():
            settled = Counter(seq for item in event.items for seq in item.seqs)
            return max(settled, key=lambda seq: settled[seq], default=0)
        case _:
            return 0


def _base(seq: int, before: int, stored: Find, whole: Find) -> tuple[Stored, int] | None:
    """Return the row to store another one against, whole, and how deep that one is then."""
    row = stored(seq) if 0 < seq < before else None
    if row is None:
        return None
    header = _Header.of(row[5])
    if header and header.depth >= DEPTH_MAX:
        return _root(header, stored, whole)
    try:
        base = whole(seq)
    except CorruptionError:
        return None  # what is damaged is for `verify` to name; nothing new depends on it
    if base is None or len(base[5]) < BASE_BYTES or digest(base[5]) != base[4]:
        return None
    return base, header.depth + 1 if header else 1


def _root(header: _Header, stored: Find, whole: Find) -> tuple[Stored, int] | None:
    """Return what a chain of bases begins with, as a base."""
    while (row := stored(header.base)) and (below := _Header.of(row[5])) and below.base:
        header = below
    return _base(header.base, header.base + 1, stored, whole)


def base_of(head: bytes) -> int:
    """Return the number of the record that a packed body is stored against, by its beginning; 0 if there is none."""
    header = _Header.of(head)
    return header.base if header else 0


def can_be_base(body: bytes) -> bool:
    """Return whether another record may be stored against one with this stored body."""
    header = _Header.of(body)
    return (header.size if header else len(body)) >= BASE_BYTES


def alone(row: Stored) -> Stored:
    """Return a whole row, packed by itself."""
    return (*row[:5], _packed(row[5]))


def unpacked(row: Stored, find: Find) -> Stored:
    """Return a row with the bytes that its digest names. `find` returns another row, whole."""
    body = row[5]
    if type(body) is not bytes or body[:1] != PACKED:
        return row
    header = _Header.of(body)
    base = b""
    try:
        if header is None:
            raise ValueError("its content is cut short")
        if header.base:
            base = _proved(row[0], header, find)
        whole = _expand(memoryview(body)[_HEADER.size :], header.size, base)
    except ValueError as error:
        raise CorruptionError(
            f"event {row[0]} is not what was written: {error}",
            hint="`takeback verify --all` shows what else is damaged",
        ) from error
    return (*row[:5], whole)


def _proved(seq: int, header: _Header, find: Find) -> bytes:
    found = find(header.base) if header.base < seq else None
    name = f"{ALGORITHM}:{header.base_digest.hex()}"
    if found is None or found[4] != name or digest(found[5]) != name:
        raise ValueError(
            f"it is stored as what differs from event {header.base}, which is missing or damaged"
        )
    return found[5]


def _packed(body: bytes, base: Stored | None = None, depth: int = 0) -> bytes:
    if base is None:
        return _HEADER.pack(PACKED, 0, len(body), 0, bytes(32)) + _shrink(body)
    name = bytes.fromhex(base[4].removeprefix(f"{ALGORITHM}:"))
    return _HEADER.pack(PACKED, depth, len(body), base[0], name) + _shrink(body, base[5])


def _shrink(data: bytes, base: bytes = b"") -> bytes:
    """Compress bytes, or what of them differs from others."""
    options: dict[int, int] = {
        CompressionParameter.compression_level: _LEVEL,
        CompressionParameter.checksum_flag: 1,
    }
    if not base:
        return compress(data, options=options)
    # What repeats is found by long-distance matching, denser than by default: a change has but some 200 bytes.
    span = len(data) + len(base)
    options[CompressionParameter.enable_long_distance_matching] = 1
    options[CompressionParameter.window_log] = min(span.bit_length(), WINDOW_LOG_MAX)
    options[CompressionParameter.ldm_min_match] = _MATCH_MIN
    options[CompressionParameter.ldm_hash_rate_log] = _RATE_LOG
    options[CompressionParameter.ldm_hash_log] = min((span >> _RATE_LOG).bit_length(), _TABLE_LOG_MAX)
    return compress(data, options=options, zstd_dict=ZstdDict(base, is_raw=True).as_prefix)


def _expand(payload: memoryview, size: int, base: bytes = b"") -> bytes:
    """Return the `size` bytes that were compressed. Raises ValueError where they cannot be had."""
    options: dict[int, int] = {DecompressionParameter.window_log_max: WINDOW_LOG_MAX}
    prefix = ZstdDict(base, is_raw=True).as_prefix if base else None
    machine = ZstdDecompressor(zstd_dict=prefix, options=options)
    try:
        data = machine.decompress(payload, size)
    except ZstdError as error:
        raise ValueError(f"its content cannot be decompressed ({error})") from error
    if not machine.eof or len(data) != size:
        raise ValueError("its content has another length")
    return data
