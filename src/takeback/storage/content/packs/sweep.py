"""Removing unneeded blobs, one pack at a time, the emptiest first.

A pack without live blobs is removed at once. Otherwise its live blobs are copied into the active pack and made
durable there; then the log records that the old pack is gone; then it is removed. A crash leaves at worst a blob
that is stored twice. A reader that has the old pack open continues to read it; any other finds the new location. So
the extra space needed is that of one pack's live blobs, and dead packs can be removed even on a full disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set as AbstractSet

from takeback.ports.content import Swept
from takeback.ports.journal import Finding
from takeback.ports.progress import Progress, silent
from takeback.storage.content.names import KEEP_SHARE, NO_ROOM, text_name
from takeback.storage.content.packs.appender import Appender
from takeback.storage.content.packs.format import catalog as catalogs
from takeback.storage.content.packs.format import record, zstd
from takeback.storage.content.packs.format.index import RecordLocation
from takeback.storage.content.packs.format.log import Pack
from takeback.storage.content.packs.format.packfile import PackFile
from takeback.storage.content.packs.format.record import PackRecord
from takeback.system import crash_points, durable

GC_COPIED = crash_points.crash_point("gc-copied")
GC_NOTED = crash_points.crash_point("gc-noted")
GC_UNLINKED = crash_points.crash_point("gc-unlinked")


def sweep(
    appender: Appender,
    live: AbstractSet[bytes],
    *,
    thorough: bool = False,
    copy_bytes_max: int | None = None,
    progress: Progress = silent,
) -> Swept:
    """Sweep the store. The caller has begun a batch, and nothing is pending."""
    if not appender.view.is_intact():
        appender.rebuild()  # a damaged index must not make a live blob look dead
    work = _Sweep(appender, live, thorough=thorough, progress=progress)
    stopped = work.run(copy_bytes_max)
    if work.removed:
        appender.fold(everything=True)
    return Swept(work.removed, work.freed, work.copied, tuple(work.findings), stopped)


class _Sweep:
    """One sweep: what is live, and what was done so far."""

    def __init__(
        self, appender: Appender, live: AbstractSet[bytes], *, thorough: bool, progress: Progress
    ) -> None:
        self.removed = self.freed = self.copied = 0
        self.findings: list[Finding] = []
        self._appender = appender
        self._view = appender.view
        self._live = live
        self._thorough = thorough
        self._progress = progress

    def run(self, copy_bytes_max: int | None) -> str:
        """Go through the packs. Return why the work ended early, or an empty string."""
        live_bytes = self._live_bytes()
        packs = list(self._view.packs.values())
        looked_at = self._progress("Looking at stored content", packs, len(packs))
        victims = [pack for pack in looked_at if self._is_victim(pack, live_bytes[pack.number])]
        for pack in victims:
            self._appender.retire(pack.number)  # do not copy into a pack that must itself be emptied
        victims.sort(key=lambda pack: live_bytes[pack.number] / pack.end)
        for pack in victims:
            needed = live_bytes[pack.number]
            if copy_bytes_max is not None and self.copied + needed > copy_bytes_max:
                return "the budget is used up"
            try:
                self._empty(pack, needed)
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                self._appender.forget()
                return "the disk is full"
        return ""

    def _is_victim(self, known: Pack, live_bytes: int) -> bool:
        """Return True if emptying a pack is worth it."""
        if not self._thorough:
            return live_bytes <= KEEP_SHARE * known.end
        with self._open(known) as pack:
            return not _is_tight(known, self._needed(pack))

    def _live_bytes(self) -> Counter[int]:
        """Return the number of live bytes in each pack. A blob that is stored twice counts where the index says."""
        counted: Counter[int] = Counter()
        for digest in self._live:
            found = self._view.locate(digest)
            if found is not None:
                place = RecordLocation.unpack(found)
                counted[place.number] += record.HEAD_BYTES + place.stored_bytes
        return counted

    def _empty(self, known: Pack, live_bytes: int) -> None:
        """Move the live blobs of a pack elsewhere, and remove the pack if all could be moved."""
        if live_bytes:
            with self._open(known) as pack:
                needed = self._needed(pack)
                moving = self._progress(f"Cleaning up {pack.path.name}", needed, len(needed))
                moved = [self._move(pack, item) for item in moving]
            self._appender.commit()
            crash_points.reach(GC_COPIED)
            if not all(moved):
                return
        self._remove(known)

    def _open(self, known: Pack) -> PackFile:
        return PackFile(catalogs.pack_path(self._view.folder, known.number), known.number)

    def _needed(self, pack: PackFile) -> list[PackRecord]:
        return [item for item in pack.records() if self._is_needed(pack, item)]

    def _is_needed(self, pack: PackFile, item: PackRecord) -> bool:
        if item.digest not in self._live:
            return False
        place = self._view.locate(item.digest)
        return place is None or place == pack.row(item)[1]

    def _move(self, pack: PackFile, item: PackRecord) -> bool:
        try:
            data = pack.prove(item)
        except ValueError as error:
            what = f"the content {text_name(item.digest)} is damaged: {error}"
            self.findings.append(Finding(place=f"{pack.path.name} at {item.offset}", what=what))
            return False
        if self._thorough and item.codec == zstd.FAST:
            self._appender.add(item.digest, data, zstd.SMALL)
        else:
            self._appender.copy(item, pack.stored(item))
        self.copied += item.end - item.offset
        return True

    def _remove(self, known: Pack) -> None:
        noted = self._appender.note_removed(known.number)
        crash_points.reach(GC_NOTED)
        catalogs.pack_path(self._view.folder, known.number).unlink(missing_ok=True)
        if not noted:
            self._appender.note_removed(
                known.number
            )  # the disk was too full to record it before; now there is space
        durable.sync_folder(self._view.folder)
        crash_points.reach(GC_UNLINKED)
        self.removed += 1
        self.freed += known.end


def _is_tight(known: Pack, found: list[PackRecord]) -> bool:
    """Return True if nothing in a pack is dead and nothing could be smaller."""
    used = sum(item.end - item.offset for item in found) + record.PACK_HEAD_BYTES
    used += record.HEAD_BYTES if known.sealed else 0
    return used == known.end and all(item.codec != zstd.FAST for item in found)
