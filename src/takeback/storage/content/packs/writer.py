"""One pack file that grows: the store's active pack, or one that a bulk worker fills on its own."""

from __future__ import annotations

import os
from pathlib import Path

from takeback.errors import BackendError, UsageError
from takeback.storage.content.names import BLOB_BYTES_MAX
from takeback.storage.content.packs.format import record, zstd
from takeback.storage.content.packs.format.index import RecordLocation
from takeback.storage.content.packs.format.log import Pack
from takeback.system import crash_points, durable
from takeback.system import durable as system_durable

PACK_WRITTEN = crash_points.crash_point("pack-written")

_BUFFER_BYTES = 1 << 20


class PackWriter:
    """Appends records. Small ones are buffered, so that many of them cost one write."""

    def __init__(self, fd: int, number: int, end: int, blobs: int) -> None:
        self.fd = fd
        self.number = number
        self.end = end
        self.durable = end
        self.blobs = blobs
        self._chunks: list[bytes] = []
        self._written = end

    @classmethod
    def create(cls, path: Path, number: int) -> PackWriter:
        writer = cls(system_durable.create(path), number, 0, 0)
        writer._add(record.pack_head())
        return writer

    @classmethod
    def resume(cls, path: Path, known: Pack) -> PackWriter:
        """Continue a pack whose durable end is known."""
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        return cls(fd, known.number, known.end, known.blobs)

    def append(self, digest: bytes, data: bytes | memoryview, codec: int = zstd.FAST) -> bytes:
        """Add one blob, and return its location."""
        if len(data) > BLOB_BYTES_MAX:
            raise UsageError(
                f"a blob of {len(data)} bytes is too large; the limit is {BLOB_BYTES_MAX}",
                hint="store large content in blocks, as takeback.storage.content.file_content does",
            )
        codec, payload = zstd.compress(data, codec)
        return self._append(codec, len(data), digest, payload)

    def append_record(self, found: record.PackRecord, payload: bytes) -> bytes:
        """Add a record of another pack unchanged, and return its location."""
        return self._append(found.codec, found.raw_bytes, found.digest, payload)

    def _append(self, codec: int, raw_bytes: int, digest: bytes, payload: bytes) -> bytes:
        place = RecordLocation(self.number, self.end, raw_bytes, len(payload)).pack()
        self.blobs += 1
        self._add(record.head(codec, raw_bytes, len(payload), digest), payload)
        return place

    def _add(self, *chunks: bytes) -> None:
        self._chunks += chunks
        self.end += sum(map(len, chunks))
        if self.end - self._written >= _BUFFER_BYTES:
            self.flush()

    def holds(self, offset: int) -> bool:
        """Return True if the record at this offset is only in memory."""
        return offset >= self._written

    def flush(self) -> None:
        """Hand the buffered records to the operating system."""
        if not self._chunks:
            return
        if not self.is_alone():
            raise BackendError(
                "another process wrote into the same pack; content put since the last sync was discarded",
                hint="hold the workspace lock while storing, and start again",
                retryable=True,
            )
        durable.write_all(self.fd, b"".join(self._chunks))
        self._chunks.clear()
        self._written = self.end
        crash_points.reach(PACK_WRITTEN)

    def is_at(self, known: Pack | None) -> bool:
        """Return True if we are where the log says that this pack ends."""
        return known is not None and not known.sealed and known.end == self.end

    def is_alone(self) -> bool:
        """Return True if the file still exists, and ends where we left it."""
        now = os.fstat(self.fd)
        return now.st_nlink > 0 and now.st_size == self._written

    def seal(self) -> None:
        """Write the end record. Everything before it is made durable first, so that an end record can be trusted."""
        self.sync()
        self._add(record.end_record(self.end, self.blobs))
        self.sync()

    def known(self, *, sealed: bool) -> Pack:
        """Return what the log should know about the pack."""
        return Pack(self.number, self.end, self.blobs, sealed)

    def sync(self) -> None:
        """Make everything durable."""
        if self.durable < self.end:
            self.flush()
            system_durable.datasync(self.fd)
            self.durable = self.end

    def cut(self) -> None:
        """Cut off what is not durable.

        After a failed sync the kernel may consider lost pages written. So they are cut off, and never synced again.
        """
        os.ftruncate(self.fd, self.durable)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
