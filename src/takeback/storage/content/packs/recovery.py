"""What a writer does first: settle what a crash, or damage, left behind.

- Leftovers that nothing refers to are deleted: temporary files, workers' unfinished packs, old runs and logs.
- A pack that is longer than its known end has a tail from a batch without a log frame. The records in it are verified
  by their digests and taken in. What follows the last whole record is cut off, and bytes between whole records become
  filler. An unknown pack is all tail. If it is sealed it was durable, and its headers are enough.
- An index that cannot be used is dropped, which makes every pack unknown. There is no other way to rebuild it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from takeback.storage.content.packs.format import catalog as catalogs
from takeback.storage.content.packs.format import record
from takeback.storage.content.packs.format.log import Frame, Pack
from takeback.storage.content.packs.format.packfile import PackFile
from takeback.storage.content.packs.format.record import PackRecord
from takeback.storage.content.packs.snapshot import StoreSnapshot
from takeback.system import durable
from takeback.system import durable as system_durable

LEFTOVERS = {".tmp", ".part", ".idx", ".log"}


def settle(view: StoreSnapshot) -> Iterator[Frame]:
    """Settle the files. The caller writes each frame to the log before it asks for the next."""
    sizes = catalogs.listing(view.folder)
    if view.damage or any(sizes.get(pack.number, pack.end) < pack.end for pack in view.packs.values()):
        drop_index(view)
    delete_leftovers(view)
    for number in view.packs.keys() - sizes.keys():
        yield Frame(Pack.removed(number), b"")
    for number in sorted(sizes):
        known = view.packs.get(number) or Pack(number, 0, 0, sealed=False)
        if sizes[number] > known.end or not known.end:
            yield from settle_tail(catalogs.pack_path(view.folder, number), known)
    view.strays = {}


def drop_index(view: StoreSnapshot) -> None:
    """Start a new index. Crash-safe: packs that are not in it yet are strays."""
    catalogs.save(view.folder, catalogs.Catalog(next=view.next + 1, log=view.next))
    view.load()


def delete_leftovers(view: StoreSnapshot) -> None:
    keep = {os.path.basename(view.log_path)}
    keep |= {catalogs.run_path(view.folder, number).name for number in view.catalog.runs}
    for entry in list(os.scandir(view.folder)):
        if os.path.splitext(entry.name)[1] in LEFTOVERS and entry.name not in keep:
            os.unlink(entry.path)


def settle_tail(path: Path, known: Pack) -> Iterator[Frame]:
    """Take in what a pack has beyond its known end, and make it durable."""
    start = known.end or record.PACK_HEAD_BYTES
    with PackFile(path, known.number) as pack:
        pack.is_pack()  # raises FormatTooNew for a newer version
        sealed = pack.is_sealed()
        found = [item for item in pack.walk(start) if isinstance(item, PackRecord)]
        if not sealed:
            found = [item for item in found if _is_whole(pack, item)]
        blobs = [item for item in found if item.is_blob]
        rows = b"".join(b"".join(pack.row(item)) for item in blobs)
        end = pack.size if sealed else max([start, *(item.end for item in found)])
    if not known.end and not found:
        path.unlink()
        return
    _clean(path, start, [] if sealed else found, end)
    durable.sync_folder(path.parent)
    yield Frame(Pack(known.number, end, known.blobs + len(blobs), sealed), rows)


def _is_whole(pack: PackFile, item: PackRecord) -> bool:
    if item.is_blob:
        try:
            pack.prove(item)
        except ValueError:
            return False
    return True


def _clean(path: Path, start: int, whole: list[PackRecord], end: int) -> None:
    """Truncate the pack at `end`, and turn what lies between the whole records into filler."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        for item in whole:
            filled = item.offset - start - record.HEAD_BYTES
            if filled >= 0:
                os.lseek(fd, start, os.SEEK_SET)
                durable.write_all(fd, record.head(record.FILLER, 0, filled, record.NO_DIGEST))
            start = item.end
        os.ftruncate(fd, end)
        # Before anything relies on it: the writer may have died before this sync.
        system_durable.datasync(fd)
    finally:
        os.close(fd)
