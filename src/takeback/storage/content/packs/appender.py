"""The writer's side: one batch at a time, from the first blob to the sync that makes it durable.

The order makes it safe: write records to the pack, sync the pack (and the folder, if the pack is new), then write a
frame to the log. The log is not synced: what it lacks after a crash is found in the tail of the pack.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from takeback.errors import BackendError
from takeback.storage.content.names import NO_ROOM
from takeback.storage.content.packs import recovery
from takeback.storage.content.packs.format import catalog as catalogs
from takeback.storage.content.packs.format import index, log, zstd
from takeback.storage.content.packs.format.index import Table
from takeback.storage.content.packs.format.log import Frame, Pack
from takeback.storage.content.packs.format.record import PackRecord
from takeback.storage.content.packs.snapshot import StoreSnapshot
from takeback.storage.content.packs.writer import PackWriter
from takeback.system import crash_points
from takeback.system import durable as system_durable

PACK_BYTES_MAX = 64 << 20
LOG_ROWS_MAX = 1 << 14

PACK_SYNCED = crash_points.crash_point("pack-synced")
PACK_SEALED = crash_points.crash_point("pack-sealed")
RUN_WRITTEN = crash_points.crash_point("run-written")
PACK_INDEXED = crash_points.crash_point("pack-indexed")


class Appender:
    """Adds blobs to the active pack. `pending` are the blobs that are not durable yet."""

    def __init__(self, view: StoreSnapshot, pack_bytes_max: int, log_rows_max: int) -> None:
        self.view = view
        self.pending: Table = {}
        self.begun = False
        self.writer: PackWriter | None = None
        self.pack_bytes_max = pack_bytes_max
        self._log_rows_max = self._fold_at = log_rows_max
        self._settled = False

    def begin(self) -> None:
        """Read what other processes wrote, and settle what a crash left behind."""
        self.pending.clear()
        self.view.refresh()
        if not self._resume() or not self._settled:
            self._settle()
        self.begun = True

    def _settle(self) -> None:
        self._close_writer()
        for frame in recovery.settle(self.view):
            if frame.pack.end:
                self.record(frame)
            else:
                self.note_removed(frame.pack.number)
        self._resume()
        self._settled = True

    def rebuild(self) -> None:
        """Rebuild the index from the packs."""
        recovery.drop_index(self.view)
        self._settle()

    def _resume(self) -> bool:
        """Open the active pack where the log says that it ends. Return False if it does not end there."""
        view = self.view
        if self.writer is not None and not self.writer.is_at(view.packs.get(self.writer.number)):
            self._close_writer()
        if self.writer is None and (active := view.active(self.pack_bytes_max)) is not None:
            try:
                self.writer = PackWriter.resume(catalogs.pack_path(view.folder, active.number), active)
            except FileNotFoundError:
                return False
        if view.damage or view.strays:
            return False
        return self.writer is None or self.writer.is_alone()

    def add(self, digest: bytes, data: bytes | memoryview, codec: int = zstd.FAST) -> None:
        """Add one blob to the batch."""
        writer = self.writer or self._create()
        self.pending[digest] = writer.append(digest, data, codec)
        if writer.end >= self.pack_bytes_max:
            self._seal(writer)

    def copy(self, found: PackRecord, payload: bytes) -> None:
        """Add a record of another pack to the batch, unchanged."""
        writer = self.writer or self._create()
        self.pending[found.digest] = writer.append_record(found, payload)
        if writer.end >= self.pack_bytes_max:
            self._seal(writer)

    def _create(self) -> PackWriter:
        while True:
            number = self.view.allocate()
            # A file with that name can only be left over from a crashed writer; it is settled another time.
            with contextlib.suppress(FileExistsError):
                self.writer = PackWriter.create(catalogs.pack_path(self.view.folder, number), number)
                return self.writer

    def retire(self, number: int) -> None:
        """Write no more to this pack, which is about to be removed."""
        known = self.view.packs[number]
        self.view.packs[number] = Pack(number, known.end, known.blobs, True)
        if self.writer is not None and self.writer.number == number:
            self._close_writer()

    def commit(self) -> None:
        """Make the batch durable, then visible."""
        writer = self.writer
        if writer is None or not self.pending:
            return
        is_new = not writer.durable
        writer.sync()
        if is_new:
            system_durable.sync_folder(self.view.folder)
        crash_points.reach(PACK_SYNCED)
        rows = b"".join(map(b"".join, self.pending.items()))
        self.record(Frame(writer.known(sealed=False), rows))
        self.pending.clear()
        self.fold_if_long()

    def _seal(self, writer: PackWriter) -> None:
        self.commit()
        writer.seal()
        self.record(Frame(writer.known(sealed=True), b""))
        self._close_writer()
        crash_points.reach(PACK_SEALED)

    def seal_active(self) -> None:
        """Seal the active pack, so that nothing is ever added to any pack there is now."""
        if self.writer is not None:
            self._seal(self.writer)

    def record(self, frame: Frame, *, durable: bool = False) -> None:
        """Write a frame to the log."""
        view = self.view
        fd = os.open(view.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            # Bytes after the last whole frame are from an interrupted write, and would hide the next frame.
            if os.fstat(fd).st_size > view.log_end:
                self._refuse_strangers()
                os.ftruncate(fd, view.log_end)
            data = log.encode(frame)
            system_durable.write_all(fd, data)
            if durable:
                system_durable.datasync(fd)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, view.log_end)
            raise
        finally:
            os.close(fd)
        view.log_end += len(data)
        view.add(frame)

    def note_removed(self, number: int) -> bool:
        """Record in the log that a pack is gone. Return False if the disk is full, so that it must wait."""
        try:
            self.record(Frame(Pack.removed(number), b""), durable=True)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self.view.forget_pack(number)
            return False
        return True

    def _refuse_strangers(self) -> None:
        if self.view.refresh():
            raise BackendError(
                "another process wrote to the store; content put since the last sync was discarded",
                hint="hold the workspace lock while storing, and start again",
                retryable=True,
            )

    def fold_if_long(self) -> None:
        """Fold the log if it is long, so that opening the store stays cheap."""
        if len(self.view.rows) > self._fold_at:
            self.fold()

    def fold(self, *, everything: bool = False) -> None:
        """Turn the log into a run, merged with the runs that are not much larger. A failure here can wait."""
        view = self.view
        old = view.runs if everything else index.to_merge(view.runs, len(view.rows))
        kept = tuple(run.number for run in view.runs if run not in old)
        stale = [catalogs.run_path(view.folder, run.number) for run in old] + [Path(view.log_path)]
        run, next_log = view.allocate(), view.allocate()
        table = index.merge([*(run.items() for run in old), view.rows.items()], view.known)
        packs = tuple(view.packs[number] for number in sorted(view.packs))
        try:
            index.write_run(catalogs.run_path(view.folder, run), table)
            crash_points.reach(RUN_WRITTEN)
            catalogs.log_path(view.folder, next_log).touch(0o600)
            catalogs.save(view.folder, catalogs.Catalog(view.next, packs, (*kept, run), next_log))
        except OSError:
            self._fold_at = 2 * len(view.rows)
            view.refresh()
            return
        self._fold_at = self._log_rows_max
        crash_points.reach(PACK_INDEXED)
        view.load()
        for path in stale:
            path.unlink(missing_ok=True)

    def forget(self, *, cut: bool = True) -> None:
        """Give up the batch. Cut what it left in the pack, unless others may have taken it in."""
        self.pending.clear()
        self.begun = False
        if cut and self.writer is not None:
            with contextlib.suppress(OSError):  # then the next writer finds the tail and settles it
                self._cut(self.writer)
        self._close_writer()

    def _cut(self, writer: PackWriter) -> None:
        self.view.refresh()
        known = self.view.packs.get(writer.number)
        if (known.end if known else 0) == writer.durable:
            writer.cut()
        if not writer.durable and known is None:
            catalogs.pack_path(self.view.folder, writer.number).unlink(missing_ok=True)

    def _close_writer(self) -> None:
        if self.writer is not None:
            self.writer.close()
            self.writer = None

    def close(self) -> None:
        self.pending.clear()
        self.begun = False
        self._close_writer()
