"""Reporting damage in the store. Nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator

from takeback.ports.journal import Finding
from takeback.ports.progress import Progress, silent
from takeback.storage.content.names import text_name
from takeback.storage.content.packs.format import catalog as catalogs
from takeback.storage.content.packs.format.log import Pack
from takeback.storage.content.packs.format.packfile import Gap, PackFile
from takeback.storage.content.packs.format.record import PackRecord
from takeback.storage.content.packs.snapshot import StoreSnapshot
from takeback.system import second_process

PARALLEL_BYTES_MIN = 8 << 20


def check(view: StoreSnapshot, *, deep: bool, progress: Progress = silent) -> Iterator[Finding]:
    """Check every file of the store, and the index against the packs; `deep` verifies each blob."""
    if view.damage:
        what = f"it cannot be used and will be rebuilt from the packs: {view.damage}"
        yield Finding(place="index", what=what)
    for run in view.runs:
        if not run.is_intact():
            name = catalogs.run_path(view.folder, run.number).name
            yield Finding(place=name, what="its checksum does not match")
    yield from _check_packs(view, deep=deep, progress=progress)


def _check_packs(view: StoreSnapshot, *, deep: bool, progress: Progress) -> Iterator[Finding]:
    mine, theirs = second_process.halves(view.packs.values(), lambda pack: pack.end)
    if (
        not deep
        or not mine
        or sum(pack.end for pack in theirs) < PARALLEL_BYTES_MIN
        or not second_process.possible()
    ):
        for known in mine + theirs:
            yield from _check_one(view, known, deep=deep, progress=progress)
        return

    def check_share(share: list[Pack]) -> list[Finding]:
        told = progress if share is mine else silent
        return [found for known in share for found in _check_one(view, known, deep=deep, progress=told)]

    for findings in second_process.both(check_share, mine, theirs, list[Finding]):
        yield from findings


def _check_one(view: StoreSnapshot, known: Pack, *, deep: bool, progress: Progress) -> Iterator[Finding]:
    path = catalogs.pack_path(view.folder, known.number)
    try:
        with PackFile(path, known.number) as pack:
            yield from _check_pack(view, known, pack, deep=deep, progress=progress)
    except OSError as error:
        view.refresh()
        if known.number in view.packs:  # otherwise it was swept away while we looked
            what = f"the pack cannot be read ({error.strerror}); its contents are lost"
            yield Finding(place=path.name, what=what)


def _check_pack(
    view: StoreSnapshot, known: Pack, pack: PackFile, *, deep: bool, progress: Progress
) -> Iterator[Finding]:
    name = pack.path.name
    if not pack.is_pack():
        yield Finding(place=name, what="it does not begin like a pack")
    if pack.size < known.end:
        yield Finding(place=name, what=f"it has {pack.size} bytes and should have {known.end}")
    blobs = 0
    # Bytes after the known end belong to a batch that is not durable yet.
    for item in progress(f"Checking {name}", pack.walk(end=known.end), known.blobs):
        if isinstance(item, Gap):
            what = f"{item.end - item.offset} bytes are not a record"
            yield Finding(place=f"{name} at {item.offset}", what=what)
        elif item.is_blob:
            blobs += 1
            for what in _wrong(view, pack, item, deep=deep):
                yield Finding(place=f"{name} at {item.offset}", what=what)
    if blobs != known.blobs:
        yield Finding(place=name, what=f"it has {blobs} whole records and should have {known.blobs}")


def _wrong(view: StoreSnapshot, pack: PackFile, item: PackRecord, *, deep: bool) -> Iterator[str]:
    if view.locate(item.digest) is None:
        yield f"the index does not list the content {text_name(item.digest)}"
    if deep:
        try:
            pack.prove(item)
        except ValueError as error:
            yield f"the content {text_name(item.digest)} is damaged: {error}"
