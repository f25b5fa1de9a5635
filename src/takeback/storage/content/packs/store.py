"""The content store: blobs by their blake3 digest, in append-only packs."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import update_wrapper
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from blake3 import blake3

from takeback.errors import BackendError, CorruptionError
from takeback.ports.content import Stats, Swept
from takeback.ports.journal import Finding
from takeback.ports.progress import Progress, silent
from takeback.storage.content.names import lost, not_read, not_written, text_name
from takeback.storage.content.packs import sweep as packs_sweep
from takeback.storage.content.packs import verify
from takeback.storage.content.packs.appender import LOG_ROWS_MAX, PACK_BYTES_MAX, Appender
from takeback.storage.content.packs.format import zstd
from takeback.storage.content.packs.format.catalog import NAME as CATALOG
from takeback.storage.content.packs.format.catalog import listing, pack_path, run_path
from takeback.storage.content.packs.format.index import RecordLocation
from takeback.storage.content.packs.format.record import PACK_HEAD_BYTES
from takeback.storage.content.packs.ingest import parts
from takeback.storage.content.packs.reader import PackReader, UnreadableBlob
from takeback.storage.content.packs.snapshot import StoreSnapshot, scan
from takeback.storage.content.unshared import UnsharedStore

P = ParamSpec("P")
R = TypeVar("R")


def _writing(method: Callable[Concatenate[PackStore, P], R]) -> Callable[Concatenate[PackStore, P], R]:
    """Allow one thread at a time, and end the batch if a write fails, so that nothing half-written is trusted."""

    def guarded(self: PackStore, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            try:
                return method(self, *args, **kwargs)
            except OSError as error:
                self._appender.forget()
                raise not_written(error) from error
            except BackendError:
                # Another process writes without the lock. The new bytes in the pack may be its own.
                self._appender.forget(cut=False)
                raise

    return update_wrapper(guarded, method)


def _reading(method: Callable[Concatenate[PackStore, P], R]) -> Callable[Concatenate[PackStore, P], R]:
    """Allow one thread at a time."""

    def guarded(self: PackStore, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            try:
                return method(self, *args, **kwargs)
            except OSError as error:
                raise not_read(error) from error

    return update_wrapper(guarded, method)


class PackStore(UnsharedStore):
    """Blobs in their own folder. One process writes, under the workspace lock; any number read."""

    def __init__(
        self, folder: Path, *, pack_bytes_max: int = PACK_BYTES_MAX, log_rows_max: int = LOG_ROWS_MAX
    ) -> None:
        self.folder = folder
        self.pack_bytes_max = pack_bytes_max
        self._lock = threading.RLock()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._view = StoreSnapshot(folder)
        except OSError as error:
            raise not_read(error) from error
        self._reader = PackReader(folder)
        self._appender = Appender(self._view, pack_bytes_max, log_rows_max)
        self._scanned: dict[bytes, tuple[bytes, ...]] | None = None

    # Storing

    def put(self, data: bytes | memoryview, *, packed: bool = True) -> bytes:
        digest = blake3(data).digest()
        self.put_named(digest, data, packed=packed)
        return digest

    @_writing
    def put_named(self, digest: bytes, data: bytes | memoryview, *, packed: bool = True) -> None:
        if not self._appender.begun:
            self._appender.begin()
        if digest not in self._appender.pending and self._view.locate(digest) is None:
            self._appender.add(digest, data, zstd.FAST if packed else zstd.RAW)

    @_writing
    def begin(self) -> None:
        self._appender.begin()

    @_writing
    def sync(self) -> None:
        self._appender.commit()
        self._appender.begun = False

    # Reading

    @_reading
    def get(self, digest: bytes) -> bytes:
        problem = ""
        for place in self._places(digest):
            try:
                return self._reader.read(digest, place)
            except UnreadableBlob as error:
                problem = problem or str(error)
        if not problem:
            raise lost(digest)
        raise CorruptionError(
            f"the content {text_name(digest)} {problem}; nothing was changed",
            hint="`takeback verify --deep` lists all damage; a copy of the store's folder may still have it",
        )

    def _places(self, digest: bytes) -> Iterator[RecordLocation]:
        """Yield where the blob may be: by the index, by the refreshed index, by the packs themselves."""
        tried = self._located(digest)
        if tried is not None:
            yield RecordLocation.unpack(tried)
        if self._refresh():
            again = self._located(digest)
            if again is not None and again != tried:
                yield RecordLocation.unpack(again)
        if tried is not None or not self._view.is_intact():
            for place in self._scan().get(digest, ()):
                if place != tried:
                    yield RecordLocation.unpack(place)

    def _located(self, digest: bytes) -> bytes | None:
        place = self._appender.pending.get(digest)
        if place is None:
            return self._view.locate(digest)
        self._flush()
        return place

    @_writing
    def _flush(self) -> None:
        """Write buffered records to the pack, from which they are then read like all others."""
        if self._appender.writer is not None:
            self._appender.writer.flush()

    def _refresh(self) -> bool:
        if not self._view.refresh():
            return False
        self._scanned = None
        self._reader.keep_only(set(self._view.packs))
        return True

    def _scan(self) -> dict[bytes, tuple[bytes, ...]]:
        """Return every record by the packs' own headers: the last resort, for a damaged index."""
        if self._scanned is None:
            self._scanned = {}
            for digest, place in scan(self.folder, dict.fromkeys(listing(self.folder), PACK_HEAD_BYTES)):
                self._scanned[digest] = (*self._scanned.get(digest, ()), place)
        return self._scanned

    def get_many(self, digests: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        wanted = list(dict.fromkeys(digests))
        with self._lock:
            places = {digest: self._view.locate(digest) for digest in wanted}
        wanted.sort(key=lambda digest: RecordLocation.unpack(places[digest] or bytes(16)))
        return ((digest, self.get(digest)) for digest in wanted)

    def has(self, digest: bytes) -> bool:
        return not self.missing((digest,))

    @_reading
    def missing(self, names: Iterable[bytes]) -> set[bytes]:
        self._refresh()
        pending, locate = self._appender.pending, self._view.locate
        return {name for name in names if name not in pending and locate(name) is None}

    # Bulk: workers fill their own packs, and no content goes through a pipe.

    @_writing
    def reserve(self, count: int) -> list[int]:
        """Return consecutive numbers for packs that a `parts.PartWriter` may write, in this process or another."""
        if not self._appender.begun:
            self._appender.begin()
        return [self._view.allocate() for _ in range(count)]

    @_writing
    def adopt(self, finished: Iterable[parts.PackPart]) -> None:
        """Adopt the packs that workers have finished. Durable when this returns."""
        parts.adopt(self._appender, finished)

    # Housekeeping

    def size_bytes(self) -> int:
        stats = self.stats()
        return stats.bytes + stats.index_bytes

    @_writing
    def lend(self, folder: Path) -> None:
        """Begin another store in this folder with all content of this one, by second names of the same packs.

        Both grow and are cleaned up independently from then on. This costs by the number of packs, not by content.
        """
        self._appender.commit()
        self._appender.begin()
        self._appender.seal_active()
        folder.mkdir(mode=0o700)
        packs = [pack_path(self.folder, number) for number in self._view.packs]
        for path in (*packs, *(run_path(self.folder, number) for number in self._view.catalog.runs)):
            os.link(path, folder / path.name)
        for path in (Path(self._view.log_path), self.folder / CATALOG):
            if path.exists():
                shutil.copyfile(path, folder / path.name)
        self._appender.begun = False

    def borrow(self, folder: Path) -> None:
        """Copy in what another store has in packs of its own, which it did not get from this one."""
        other = PackStore(folder)
        try:
            own = [n for n in listing(folder) if os.stat(pack_path(folder, n)).st_nlink == 1]
            for digest, _ in scan(folder, dict.fromkeys(own, PACK_HEAD_BYTES)):
                if not self.has(digest):
                    self.put_named(digest, other.get(digest))
        finally:
            other.close()
        self.sync()

    @_reading
    def stats(self) -> Stats:
        self._refresh()
        packs = self._view.packs.values()
        return Stats(
            packs=len(packs),
            blobs=sum(pack.blobs for pack in packs),
            bytes=sum(pack.end for pack in packs),
            index_bytes=self._view.index_bytes(),
        )

    def check(self, *, deep: bool = False, progress: Progress = silent) -> Iterator[Finding]:
        view = StoreSnapshot(self.folder)  # its own: checking takes long, and others go on meanwhile
        try:
            yield from verify.check(view, deep=deep, progress=progress)
        finally:
            view.close()

    @_writing
    def sweep(
        self,
        live: AbstractSet[bytes],
        *,
        thorough: bool = False,
        copy_bytes_max: int | None = None,
        progress: Progress = silent,
    ) -> Swept:
        self._appender.commit()
        self._appender.begin()
        swept = packs_sweep.sweep(
            self._appender, live, thorough=thorough, copy_bytes_max=copy_bytes_max, progress=progress
        )
        self._appender.begun = False
        self._scanned = None
        self._reader.keep_only(set(self._view.packs))
        return swept

    def close(self) -> None:
        with self._lock:
            self._appender.close()
            self._reader.close()
            self._view.close()
