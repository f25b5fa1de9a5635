"""Reading records out of packs, each verified by its own header and digest."""

from __future__ import annotations

import os
from pathlib import Path

from takeback.storage.content.packs.format import catalog as catalogs
from takeback.storage.content.packs.format import record
from takeback.storage.content.packs.format.index import RecordLocation

_OPEN_MAX = 64


class UnreadableBlob(Exception):
    """A location from which the blob cannot be read. The text says where and why."""


class PackReader:
    """Keeps some packs open. An open pack can be read even after a sweep has removed it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fds: dict[int, int] = {}

    def read(self, digest: bytes, place: RecordLocation) -> bytes:
        """Return the blob at this location. The index is only a hint: the record itself is checked."""
        try:
            return self._read(digest, place)
        except UnreadableBlob as error:
            where = f"in {catalogs.pack_path(self._folder, place.number).name} at {place.offset}"
            raise UnreadableBlob(f"{where} {error}") from error

    def _read(self, digest: bytes, place: RecordLocation) -> bytes:
        try:
            fd = self._fd(place.number)
            data = os.pread(fd, record.HEAD_BYTES + place.stored_bytes, place.offset)
        except OSError as error:
            raise UnreadableBlob(f"cannot be read ({error.strerror})") from error
        found = record.parse(data, place.offset)
        if found is None or not found.is_blob:
            raise UnreadableBlob("has no readable header")
        if found.digest != digest:
            raise UnreadableBlob("is another blob")
        try:
            return record.open_payload(found, data[record.HEAD_BYTES :])
        except ValueError as error:
            raise UnreadableBlob(f"is damaged: {error}") from error

    def _fd(self, number: int) -> int:
        fd = self._fds.pop(number, -1)
        if fd < 0:
            if len(self._fds) >= _OPEN_MAX:
                os.close(self._fds.pop(next(iter(self._fds))))
            fd = os.open(catalogs.pack_path(self._folder, number), os.O_RDONLY | os.O_CLOEXEC)
        self._fds[number] = fd  # last, so that the least recently used one is closed first
        return fd

    def keep_only(self, numbers: set[int]) -> None:
        """Close the others: a removed pack takes up space as long as it is open."""
        for number in self._fds.keys() - numbers:
            os.close(self._fds.pop(number))

    def close(self) -> None:
        self.keep_only(set())
