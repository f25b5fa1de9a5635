"""What one process knows about the store's files, and how it learns what others wrote.

A reader takes no lock. It sees the catalog and the log as they were when it last looked; whenever something is not
where it should be, it looks again. The catalog is kept open, so that its inode cannot be reused and a replaced
catalog is always noticed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from takeback.storage.content.packs.format.catalog import NAME as CATALOG_NAME
from takeback.storage.content.packs.format.catalog import (
    BadCatalog,
    Catalog,
    decode,
    listing,
    log_path,
    pack_path,
    run_path,
)
from takeback.storage.content.packs.format.index import PACK_KEY, ROW, BadRun, IndexRun, Table
from takeback.storage.content.packs.format.log import Frame, Pack
from takeback.storage.content.packs.format.log import decode as decode_log
from takeback.storage.content.packs.format.packfile import PackFile
from takeback.storage.content.packs.format.record import PACK_HEAD_BYTES


class StoreSnapshot:
    """The present catalog, its runs and the rows of its log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.next = 1
        self._catalog_path = str(folder / CATALOG_NAME)
        self._catalog_id = (-1, -1)
        self.runs: list[IndexRun] = []
        self._catalog_fd = self._log_fd = -1
        self.load()

    def load(self) -> None:
        """Read everything again. An unusable index counts as empty: then all packs are strays."""
        while not self._try_load():
            pass

    def _try_load(self) -> bool:
        self.close()
        self.damage = ""
        self.log_end = 0
        self.rows: Table = {}
        self._stray_rows: Table | None = None
        try:
            self.catalog = self._open_catalog()
            self._take_packs(self.catalog.packs)
            self.runs = [IndexRun(run_path(self.folder, number), number) for number in self.catalog.runs]
        except (BadCatalog, BadRun, FileNotFoundError) as error:
            if self._is_replaced():
                return False  # the files were replaced while we read
            self._distrust(str(error))
        self.log_path = str(log_path(self.folder, self.catalog.log))
        self.read_log()
        sizes = listing(self.folder)
        self.next = max([self.next, self.catalog.next, *(number + 1 for number in sizes | self.packs)])
        self.strays = self._find_strays(sizes)
        return True

    def _find_strays(self, sizes: dict[int, int]) -> dict[int, int]:
        """Return where the records begin that neither catalog nor log lists, for each pack with such records."""
        ends = {number: self.packs[number].end if number in self.packs else 0 for number in sizes}
        return {number: max(end, PACK_HEAD_BYTES) for number, end in ends.items() if end < sizes[number]}

    def _open_catalog(self) -> Catalog:
        try:
            self._catalog_fd = os.open(self._catalog_path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self._catalog_id = (-1, -1)
            return Catalog()
        now = os.fstat(self._catalog_fd)
        self._catalog_id = (now.st_dev, now.st_ino)
        return decode(os.pread(self._catalog_fd, now.st_size, 0))

    def _is_replaced(self) -> bool:
        try:
            now = os.stat(self._catalog_path)
        except FileNotFoundError:
            return self._catalog_fd >= 0
        return (now.st_dev, now.st_ino) != self._catalog_id

    def _distrust(self, why: str) -> None:
        self.damage = why
        self.runs = []
        # No log has this number, so a log that belongs to the damaged index is not read either.
        self.catalog = Catalog(log=-1)
        self._take_packs(())

    def _take_packs(self, packs: tuple[Pack, ...]) -> None:
        self.packs = {pack.number: pack for pack in packs}
        self.known = {PACK_KEY(number) for number in self.packs}

    def refresh(self) -> bool:
        """Read what other processes wrote. Return True if there was anything."""
        if self._is_replaced():
            self.load()
            return True
        return self.read_log()

    def read_log(self) -> bool:
        """Take in the frames that were added to the log. Return True if there were any."""
        if self._log_fd < 0:
            try:
                self._log_fd = os.open(self.log_path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return False
        size = os.fstat(self._log_fd).st_size
        if size <= self.log_end:
            return False
        end = self.log_end
        for frame, stop in decode_log(os.pread(self._log_fd, size - end, end)):
            self.add(frame)
            self.log_end = end + stop
        return self.log_end > end

    def add(self, frame: Frame) -> None:
        """Take in one frame."""
        if not frame.pack.end:
            self.forget_pack(frame.pack.number)
            return
        self.packs[frame.pack.number] = frame.pack
        self.known.add(PACK_KEY(frame.pack.number))
        self.rows.update(ROW.iter_unpack(frame.rows))
        self.next = max(self.next, frame.pack.number + 1)

    def forget_pack(self, number: int) -> None:
        """Ignore the rows of this pack from now on."""
        self.packs.pop(number, None)
        self.known.discard(PACK_KEY(number))

    def active(self, bytes_max: int) -> Pack | None:
        """Return the pack to append to, if there is one with space."""
        open_packs = (pack for pack in self.packs.values() if not pack.sealed and pack.end < bytes_max)
        return max(open_packs, key=lambda pack: pack.number, default=None)

    def allocate(self) -> int:
        """Return a number for a new file."""
        self.next += 1
        return self.next - 1

    def locate(self, digest: bytes) -> bytes | None:
        """Return the location of a blob, as far as this snapshot knows."""
        place = self.rows.get(digest)
        if place is not None and place[:4] in self.known:
            return place
        for run in reversed(self.runs):
            place = run.find(digest)
            if place is not None and place[:4] in self.known:
                return place
        return self._among_strays(digest) if self.strays else None

    def _among_strays(self, digest: bytes) -> bytes | None:
        if self._stray_rows is None:
            self._stray_rows = dict(scan(self.folder, self.strays))
        return self._stray_rows.get(digest)

    def is_intact(self) -> bool:
        """Return True if the index is as it was written, so that it can prove a blob absent."""
        return all(run.is_intact() for run in self.runs)

    def index_bytes(self) -> int:
        return self.log_end + sum(run.bytes for run in self.runs)

    def close(self) -> None:
        for run in self.runs:
            run.close()
        self.runs = []
        for fd in (self._catalog_fd, self._log_fd):
            if fd >= 0:
                os.close(fd)
        self._catalog_fd = self._log_fd = -1


def scan(folder: Path, starts: Mapping[int, int]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows of packs, read from the packs themselves, each from an offset on. Slow, but needs no index."""
    for number, start in starts.items():
        with contextlib.suppress(FileNotFoundError), PackFile(pack_path(folder, number), number) as pack:
            yield from map(pack.row, pack.records(start))
