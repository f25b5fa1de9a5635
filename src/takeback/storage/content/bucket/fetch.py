"""Fetching blobs from the bucket into the packs of this machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from takeback.errors import BackendError
from takeback.ports.lock import Lock
from takeback.ports.progress import Progress
from takeback.storage.content.bucket import objects
from takeback.storage.content.bucket.listing import at_once
from takeback.storage.content.bucket.objects import ObjectRow
from takeback.system import crash_points

if TYPE_CHECKING:
    from takeback.storage.content.bucket.sharing import SharedStore

WHOLE_BYTES_MAX = 4 << 20
"""An object up to this size is read whole even for one blob: the next wanted blob is likely in it too."""

FETCHED = crash_points.crash_point("fetch-read")
KEPT = crash_points.crash_point("fetch-kept")


class Fetching:
    """Reads from the bucket, and keeps what it read if that needs no waiting."""

    def __init__(self, store: SharedStore, lock: Lock) -> None:
        self._store = store
        self._lock = lock
        self._last: dict[bytes, bytes] = {}
        """The blobs read last, if they could not be kept for want of the lock: one of them is likely wanted next."""

    def get(self, digest: bytes) -> bytes | None:
        """Return one blob, verified; None if no object has an intact copy."""
        if digest in self._last:
            return self._last[digest]
        for found in self._store.known.places(digest):
            whole = found.bytes <= WHOLE_BYTES_MAX
            rows = self._store.known.rows_of(found.object) if whole else [found.row]
            read = dict(self._read(found.object, rows))
            if digest in read:
                self._last = {} if self._keep(read) else read
                return read[digest]
        return None

    def fetch(self, digests: Collection[bytes], progress: Progress) -> set[bytes]:
        """Fetch all of these, under the lock. Return those that no object has."""
        wanted, gone = set(digests), set()
        while wanted:
            by_object: dict[str, list[ObjectRow]] = defaultdict(list)
            for digest in wanted:
                places = [place for place in self._store.known.places(digest) if place.object not in gone]
                if places:
                    by_object[places[0].object].append(places[0].row)
            if not by_object:
                break
            items = [(name, sorted(rows, key=lambda row: row.offset)) for name, rows in by_object.items()]
            told = progress("Fetching content", items, len(items))
            for name, read in at_once(lambda item: (item[0], list(self._read(*item))), told):
                for digest, data in read:
                    self._store.put_named(digest, data)
                    wanted.discard(digest)
                self._store.sync()
                gone.add(name)  # the blobs it failed to deliver must come from another object
        crash_points.reach(KEPT)
        return wanted

    def _read(self, name: str, rows: list[ObjectRow]) -> Iterator[tuple[bytes, bytes]]:
        """Yield the intact ones among these blobs of an object."""
        parts = self._store.bucket.read_parts(name, [(row.offset, row.end) for row in rows])
        crash_points.reach(FETCHED)
        for row, stored in zip(rows, parts or (), strict=False):
            try:
                _, data = objects.piece(row, stored, self._store.seal)
            except objects.Damaged:
                continue
            yield row.digest, data

    def _keep(self, read: dict[bytes, bytes]) -> bool:
        """Put these into the packs. Return False if another process is writing there now."""
        with self._lock.tried() as held:
            if not held:
                return False
            try:
                for digest, data in read.items():
                    self._store.put_named(digest, data)
                self._store.sync()
            except BackendError:
                return False  # a full disk does not keep anyone from reading
            return True
