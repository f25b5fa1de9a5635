"""Naming whatever in the store is not as it was written. Nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator

from takeback.ports import Finding, Progress, silent
from takeback.storage.packs import catalog as catalogs
from takeback.storage.packs.blobs import text_name
from takeback.storage.packs.log import Pack
from takeback.storage.packs.packfile import Gap, PackFile
from takeback.storage.packs.record import Record
from takeback.storage.packs.view import View


def check(view: View, *, deep: bool, progress: Progress = silent) -> Iterator[Finding]:
    """Every file of the store against itself, and the index against the packs; `deep` proves each blob."""
    if view.damage:
        what = f"it cannot be used and will be made again from the packs: {view.damage}"
        yield Finding(place="index", what=what)
    for run in view.runs:
        if not run.is_intact():
            name = catalogs.run_path(view.folder, run.number).name
            yield Finding(place=name, what="its checksum does not hold")
    for known in list(view.packs.values()):
        path = catalogs.pack_path(view.folder, known.number)
        try:
            with PackFile(path, known.number) as pack:
                yield from _check_pack(view, known, pack, deep=deep, progress=progress)
        except OSError as error:
            view.refresh()
            if known.number in view.packs:  # else it was swept away while we looked
                what = f"the pack cannot be read ({error.strerror}); its contents are lost"
                yield Finding(place=path.name, what=what)


def _check_pack(
    view: View, known: Pack, pack: PackFile, *, deep: bool, progress: Progress
) -> Iterator[Finding]:
    name = pack.path.name
    if not pack.is_pack():
        yield Finding(place=name, what="it does not begin as a pack does")
    if pack.size < known.end:
        yield Finding(place=name, what=f"it has {pack.size} bytes and should have {known.end}")
    blobs = 0
    # What follows the known end belongs to a batch that is not durable yet.
    for item in progress(f"Checking {name}", pack.walk(end=known.end), known.blobs):
        place = f"{name} at {item.offset}"
        if isinstance(item, Gap):
            yield Finding(place=place, what=f"{item.end - item.offset} bytes are no record")
        elif item.is_blob:
            blobs += 1
            yield from _check_blob(view, pack, item, place, deep=deep)
    if blobs != known.blobs:
        yield Finding(place=name, what=f"it has {blobs} whole records and should have {known.blobs}")


def _check_blob(view: View, pack: PackFile, item: Record, place: str, *, deep: bool) -> Iterator[Finding]:
    name = text_name(item.digest)
    if view.locate(item.digest) is None:
        yield Finding(place=place, what=f"the index does not know the content {name}")
    if deep:
        try:
            pack.prove(item)
        except ValueError as error:
            yield Finding(place=place, what=f"the content {name} is damaged: {error}")
