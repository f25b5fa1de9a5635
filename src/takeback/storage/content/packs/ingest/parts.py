"""Packs that a worker process writes on its own, and the parent adopts once they are durable."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from pathlib import Path

import msgspec
from blake3 import blake3

from takeback.errors import BackendError
from takeback.storage.content.names import not_written
from takeback.storage.content.packs.appender import PACK_BYTES_MAX, Appender
from takeback.storage.content.packs.format import catalog as catalogs
from takeback.storage.content.packs.format.index import Table
from takeback.storage.content.packs.format.log import Frame, Pack
from takeback.storage.content.packs.snapshot import StoreSnapshot
from takeback.storage.content.packs.writer import PackWriter
from takeback.system import crash_points, durable

PART_FINISHED = crash_points.crash_point("part-finished")
PART_ADOPTED = crash_points.crash_point("part-adopted")


class PackPart(msgspec.Struct, frozen=True):
    """A finished pack that still has a worker's file name, and its index rows."""

    pack: Pack
    rows: bytes


def parts_needed(raw_bytes: int, files: int, pack_bytes_max: int = PACK_BYTES_MAX) -> int:
    """Return how many packs this much content fills at most, if nothing compresses and all files are read twice."""
    return 2 + 2 * (raw_bytes + raw_bytes // 64 + 4096 * files) // pack_bytes_max


class PartWriter:
    """A sink that fills reserved packs, one after another. It skips what the store already has."""

    def __init__(self, folder: Path, numbers: Iterable[int], pack_bytes_max: int = PACK_BYTES_MAX) -> None:
        self._folder = folder
        self._numbers = deque(numbers)
        self._pack_bytes_max = pack_bytes_max
        self._view = StoreSnapshot(folder)
        self._seen: set[bytes] = set()
        self._rows: Table = {}
        self._writer: PackWriter | None = None
        self._finished: list[PackPart] = []

    def allow(self, numbers: Iterable[int]) -> None:
        """Add the numbers of more packs that may be filled."""
        self._numbers.extend(numbers)

    def put(self, data: bytes | memoryview) -> bytes:
        digest = blake3(data).digest()
        if digest not in self._seen and self._view.locate(digest) is None:
            try:
                self._add(digest, data)
            except OSError as error:
                raise not_written(error) from error
        return digest

    def _add(self, digest: bytes, data: bytes | memoryview) -> None:
        if self._writer is None:
            if not self._numbers:
                raise BackendError("all reserved packs are full", hint="reserve more", retryable=True)
            number = self._numbers.popleft()
            self._writer = PackWriter.create(catalogs.part_path(self._folder, number), number)
        self._rows[digest] = self._writer.append(digest, data)
        self._seen.add(digest)
        if self._writer.end >= self._pack_bytes_max:
            self._seal(self._writer)

    def _seal(self, writer: PackWriter) -> None:
        writer.seal()
        writer.close()
        rows = b"".join(map(b"".join, self._rows.items()))
        self._finished.append(PackPart(writer.known(sealed=True), rows))
        self._rows, self._writer = {}, None
        crash_points.reach(PART_FINISHED)

    def finish(self) -> list[PackPart]:
        """Make everything durable, and return the finished packs."""
        if self._writer is not None:
            try:
                self._seal(self._writer)
            except OSError as error:
                raise not_written(error) from error
        self._view.close()
        return self._finished


def adopt(appender: Appender, finished: Iterable[PackPart]) -> None:
    """Rename the packs, then record them in the log. After a crash in between they are found as strays."""
    view, taken = appender.view, list(finished)
    for part in taken:
        number = part.pack.number
        catalogs.part_path(view.folder, number).rename(catalogs.pack_path(view.folder, number))
    if taken:
        durable.sync_folder(view.folder)
        crash_points.reach(PART_ADOPTED)
    for part in taken:
        appender.record(Frame(part.pack, part.rows))
    appender.fold_if_long()
