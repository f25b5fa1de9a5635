"""Reporting damage in the bucket, and live content that it lacks. Nothing is changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from takeback.ports.journal import Finding
from takeback.ports.progress import Progress
from takeback.storage.content.bucket import objects
from takeback.storage.content.bucket.listing import at_once
from takeback.storage.content.bucket.objects import ObjectRow
from takeback.storage.content.names import text_name

if TYPE_CHECKING:
    from takeback.storage.content.bucket.sharing import SharedStore


def check(
    store: SharedStore, live: Collection[bytes], *, deep: bool, progress: Progress
) -> Iterator[Finding]:
    """Check that the bucket has every live blob; `deep` reads and verifies each."""
    store.look()
    place = store.bucket.name
    for name, damage in store.known.damaged():
        yield Finding(place, f"{name} cannot be read: {damage}")
    by_object: dict[str, list[ObjectRow]] = defaultdict(list)
    for digest in live:
        if found := store.known.places(digest):
            by_object[found[0].object].append(found[0].row)
        else:
            yield Finding(place, f"the content {text_name(digest)} is not there")
    if not deep:
        return
    told = progress("Verifying the bucket", list(by_object.items()), len(by_object))
    for findings in at_once(lambda item: _prove(store, *item), told):
        yield from findings


def _prove(store: SharedStore, name: str, rows: list[ObjectRow]) -> list[Finding]:
    rows.sort(key=lambda row: row.offset)
    place = f"{store.bucket.name}, {name}"
    parts = store.bucket.read_parts(name, [(row.offset, row.end) for row in rows])
    if parts is None:
        return [Finding(place, "it is gone")]
    findings = []
    for row, stored in zip(rows, parts, strict=True):
        try:
            objects.piece(row, stored, store.seal)
        except objects.Damaged as error:
            findings.append(Finding(place, f"the content {text_name(row.digest)} is damaged: {error}"))
    return findings
