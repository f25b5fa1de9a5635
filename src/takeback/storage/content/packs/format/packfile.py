"""Reading one pack from end to end, by its own headers and without an index."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from takeback.storage.content.packs.format import record
from takeback.storage.content.packs.format.index import RecordLocation
from takeback.storage.content.packs.format.record import HEAD_BYTES, PACK_HEAD_BYTES, PackRecord

_SEARCH_BYTES = 1 << 20


class Gap(NamedTuple):
    """Bytes that are not a record."""

    offset: int
    end: int


class PackFile:
    """An open pack. Not mapped: a writer may truncate it while we read, which would kill the process."""

    def __init__(self, path: Path, number: int) -> None:
        self.path = path
        self.number = number
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._fd).st_size

    def __enter__(self) -> PackFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def _at(self, offset: int) -> PackRecord | None:
        """Return the record at this offset, if there is one and it ends within the pack."""
        found = record.parse(os.pread(self._fd, HEAD_BYTES, offset), offset)
        return found if found is not None and found.end <= self.size else None

    def is_pack(self) -> bool:
        """Return True if it begins like a pack. Raise FormatTooNew if this version would misread it."""
        return record.is_pack(os.pread(self._fd, PACK_HEAD_BYTES, 0), self.path.name)

    def is_sealed(self) -> bool:
        """Return True if the last record is an end record. Then all of the pack was durable once."""
        last = self._at(self.size - HEAD_BYTES) if self.size >= PACK_HEAD_BYTES + HEAD_BYTES else None
        return last is not None and record.is_end(last)

    def walk(self, start: int = PACK_HEAD_BYTES, end: int | None = None) -> Iterator[PackRecord | Gap]:
        """Yield every record from `start` to `end`, and the gaps between them."""
        offset, end = start, self.size if end is None else min(end, self.size)
        while offset < end:
            found = self._at(offset)
            if found is not None:
                yield found
                offset = found.end
            else:
                resumed = self._search(offset + 1, end)
                yield Gap(offset, resumed)
                offset = resumed

    def records(self, start: int = PACK_HEAD_BYTES) -> Iterator[PackRecord]:
        """Yield every blob from `start` on."""
        return (item for item in self.walk(start) if isinstance(item, PackRecord) and item.is_blob)

    def _search(self, start: int, end: int) -> int:
        """Return where the next record begins, or `end`."""
        overlap = len(record.MAGIC) - 1
        for base in range(start, end, _SEARCH_BYTES):
            chunk = os.pread(self._fd, _SEARCH_BYTES + overlap, base)
            at = chunk.find(record.MAGIC)
            while at >= 0:
                if base + at < end and self._at(base + at) is not None:
                    return base + at
                at = chunk.find(record.MAGIC, at + 1)
        return end

    def stored(self, item: PackRecord) -> bytes:
        """Return the payload of a record, as stored."""
        return os.pread(self._fd, item.stored_bytes, item.offset + HEAD_BYTES)

    def prove(self, item: PackRecord) -> bytes:
        """Return the blob of a record. Raise ValueError if it is damaged; the error says how."""
        return record.open_payload(item, self.stored(item))

    def row(self, item: PackRecord) -> tuple[bytes, bytes]:
        """Return the index row of a record."""
        return item.digest, RecordLocation(self.number, item.offset, item.raw_bytes, item.stored_bytes).pack()
