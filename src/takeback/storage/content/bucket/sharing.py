"""The content store of a machine that shares: its own packs, and a bucket behind them.

New content goes to the packs. `share` sends what is in the packs but not in the bucket. It is called before a
record names content, so that a record never names content that other machines cannot find. Content that is missing
here is read from the bucket, verified, and kept in the packs.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from pathlib import Path

from takeback.core.leases import Blocked, Holder
from takeback.errors import BackendError, CorruptionError
from takeback.ports.content import Shelf, Swept
from takeback.ports.journal import Finding
from takeback.ports.leases import LeaseStore
from takeback.ports.lock import Lock
from takeback.ports.progress import Progress, silent
from takeback.storage.content.bucket import listing, objects, sweep, verify
from takeback.storage.content.bucket.client import Bucket
from takeback.storage.content.bucket.encryption import PLAIN, Seal
from takeback.storage.content.bucket.fetch import Fetching
from takeback.storage.content.bucket.listing import Listing
from takeback.storage.content.bucket.local_index import TICKETS, Listed, LocalIndex, Ticket
from takeback.storage.content.bucket.shelf import BucketShelf
from takeback.storage.content.names import lost
from takeback.storage.content.packs import PackStore
from takeback.storage.content.packs.format.catalog import pack_path
from takeback.storage.content.packs.format.log import Pack
from takeback.storage.content.packs.format.packfile import PackFile
from takeback.storage.content.packs.format.record import PACK_HEAD_BYTES, PackRecord
from takeback.system import crash_points

OBJECT_BYTES_MAX = 16 << 20
OBJECT_ROWS_MAX = 20_000
TICKET_S = 10 * 365 * 86_400.0
LOOK_AGAIN_S = 5.0
_SALT_BYTES = 6

SENT = crash_points.crash_point("share-sent")
NOTED = crash_points.crash_point("share-noted")
SHARED = crash_points.crash_point("share-done")
TICKET_TAKEN = crash_points.crash_point("share-ticket-taken")
LISTED = crash_points.crash_point("share-listed")


class SharedStore(PackStore):
    """Packs in a folder, and a bucket behind them. Has the interface of a `PackStore`."""

    def __init__(
        self,
        folder: Path,
        bucket: Callable[[], Bucket],
        known: LocalIndex,
        leases: Callable[[], LeaseStore],
        lock: Lock,
        seal: Seal = PLAIN,
        *,
        removed: Callable[[], object] = lambda: None,
        progress: Progress = silent,
        object_bytes_max: int = OBJECT_BYTES_MAX,
        look_again_s: float = LOOK_AGAIN_S,
        **limits: int,
    ) -> None:
        """`removed` is called when a clean-up on another machine has removed content that this one relied on."""
        super().__init__(folder, **limits)
        self.known = known
        self.seal = seal
        self.leases = leases
        self.object_bytes_max = object_bytes_max
        self._open_bucket = bucket
        self._bucket: Bucket | None = None
        self._fetching = Fetching(self, lock)
        self._removed = removed
        self._told = progress
        self._look_again_s = look_again_s
        self._looked_at: float | None = None
        self._relied: tuple[set[bytes], set[bytes]] = (set(), set())
        """Blobs only in the bucket that callers were told exist: before the last `share`, and since."""
        self._sharing = threading.RLock()

    @property
    def bucket(self) -> Bucket:
        """The bucket, checked for format and key. It is not contacted before it is needed."""
        with self._sharing:
            if self._bucket is None:
                bucket = self._open_bucket()
                listing.begin(bucket, self.seal)
                self._bucket = bucket
            return self._bucket

    @cached_property
    def shelf(self) -> Shelf | None:
        return BucketShelf(lambda: self.bucket, self.seal)

    # Sharing

    def share(self, progress: Progress = silent) -> Collection[int]:
        with self._sharing:
            ticket = self.known.ticket() or self.look_anew()[0]
            self._secure(ticket)
            if unsent := self._unsent():
                self._send(unsent, ticket, progress if progress is not silent else self._told)
                crash_points.reach(SHARED)
            self._relied = (self._relied[1], set())
            return (ticket.fence,)

    def renew(self) -> None:
        self.look_anew()

    def look_anew(self) -> tuple[Ticket, Listing]:
        """Take a new ticket, and list the whole bucket."""
        with self._sharing:
            bucket, salt = self.bucket, secrets.token_bytes(_SALT_BYTES)
            lease = self.leases().acquire(f"{TICKETS}{salt.hex()}", Holder(), TICKET_S)
            if isinstance(lease, Blocked):
                raise BackendError(
                    f"{lease.by[0].name} is locked, so content cannot be shared; nothing was recorded",
                    hint=f"takeback locks release {lease.by[0].name}",
                )
            crash_points.reach(TICKET_TAKEN)
            # List after taking the ticket: the listing shows all that is condemned by then, and a later clean-up
            # ends the ticket.
            ticket = Ticket(lease.fence, salt)
            found = listing.look(bucket)
            self._take_in(found, ticket)
            crash_points.reach(LISTED)
            return ticket, found

    def _unsent(self) -> list[tuple[Pack, int]]:
        """Return the packs that are not in the bucket up to their end, and from where on."""
        with self._lock:
            self._refresh()
            packs = list(self._view.packs.values())
        sent = self.known.sent()
        return [(pack, sent.get(pack.number, 0)) for pack in packs if pack.end > sent.get(pack.number, 0)]

    def _send(self, unsent: list[tuple[Pack, int]], ticket: Ticket, progress: Progress) -> None:
        batch: list[objects.Piece] = []
        size, ends = 0, {}
        total = sum(pack.blobs for pack, _ in unsent)
        told = (
            progress if total > OBJECT_ROWS_MAX or sum(p.end - at for p, at in unsent) > (4 << 20) else silent
        )
        for item in told("Sharing content", self._records(unsent), total):
            if isinstance(item, Pack):
                ends[item.number] = item.end
                continue
            batch.append(item)
            size += len(item[1])
            if size >= self.object_bytes_max or len(batch) >= OBJECT_ROWS_MAX:
                self.upload(batch, ticket)
                self._note_sent(ends, ticket)
                batch, size = [], 0
        if batch:
            self.upload(batch, ticket)
        self._note_sent(ends, ticket)

    def _records(self, unsent: list[tuple[Pack, int]]) -> Iterator[objects.Piece | Pack]:
        """Yield the records of these packs that the bucket lacks, and each pack itself after its last record."""
        seen: set[bytes] = set()
        for pack, start in unsent:
            try:
                with PackFile(pack_path(self.folder, pack.number), pack.number) as file:
                    for item in file.walk(max(start, PACK_HEAD_BYTES), pack.end):
                        if not isinstance(item, PackRecord) or not item.is_blob or item.digest in seen:
                            continue
                        if not self.known.has(item.digest) and _is_sound(file, item):
                            seen.add(item.digest)
                            yield item, file.stored(item)
            except FileNotFoundError:
                continue  # a clean-up moved the live blobs into another pack, which is handled too
            yield pack

    def upload(self, pieces: list[objects.Piece], ticket: Ticket) -> None:
        """Create an object with these blobs, and add it to the index."""
        name = objects.name_of([found.digest for found, _ in pieces], ticket.salt, self.seal)
        data, rows = objects.build(name, pieces, self.seal)
        made = Listed(name, len(data), rows)
        if not self.bucket.create(name, data):
            # Only an earlier attempt of ours, whose answer was lost, can have created it. Check its content.
            made = self._made_before(name, {row.digest for row in rows})
        crash_points.reach(SENT)
        self.known.add(made, ticket)
        crash_points.reach(NOTED)

    def _made_before(self, name: str, digests: set[bytes]) -> Listed:
        size = self.bucket.list(listing.PACKS).get(name, 0)
        found = listing.index_of(self.bucket, self.seal, name, size)
        if found is None or {row.digest for row in found.rows} != digests:
            raise CorruptionError(
                f"{name} in {self.bucket.name} is not what was put there; nothing was recorded",
                hint="`takeback verify --deep` lists all damage; all content is safe on this machine",
            )
        return found

    def _note_sent(self, ends: dict[int, int], ticket: Ticket) -> None:
        with self._lock:
            packs = set(self._view.packs)
        self.known.note_sent(ends, packs, ticket)
        ends.clear()

    # Looking

    def look(self) -> Listing:
        """List the bucket and update the index."""
        before = self.known.ticket()
        found = listing.look(self.bucket)
        self._take_in(found, None, before)
        return found

    def _take_in(self, found: Listing, now: Ticket | None, before: Ticket | None = None) -> None:
        new = list(listing.learn(self.bucket, self.seal, found, self.known.names(), self._told))
        gone = self.known.take_in(found.packs, new, found.condemned, before=before, now=now)
        self._looked_at = time.monotonic()
        if gone:
            self._removed()

    def _secure(self, ticket: Ticket) -> None:
        """Make sure that blobs which are only in the bucket stay there: the next record may name them.

        Condemned ones are copied. If some were already removed, raise BackendError.
        """
        doomed = self.known.lacks(super().missing(self._relied[0] | self._relied[1]))
        if not doomed:
            return
        _, _, gone = sweep.copy(self, doomed, ticket, silent)
        if gone:
            self._relied = (set(), set())
            raise BackendError(
                f"a clean-up on another machine removed {len(gone)} blobs that were only in {self.bucket.name}; "
                "nothing was recorded",
                hint="try again",
                retryable=True,
            )

    def _look_again(self) -> bool:
        """List the bucket, unless that was done a moment ago. Return True if it was listed."""
        if self._looked_at is not None and time.monotonic() < self._looked_at + self._look_again_s:
            return False
        self.look()
        return True

    # Reading

    def get(self, digest: bytes) -> bytes:
        try:
            return super().get(digest)
        except CorruptionError:
            # Gone or damaged here, but the bucket may have it.
            found = self._fetching.get(digest)
            if found is None and self._look_again():
                found = self._fetching.get(digest)
            if found is None:
                raise
            return found

    def missing(self, names: Iterable[bytes]) -> set[bytes]:
        wanted = super().missing(names)
        if not wanted:
            return wanted
        self._look_again()
        found = {digest for digest in wanted if not self.known.places(digest)}
        self._relied[0].difference_update(found)
        self._relied[1].difference_update(found)
        self._relied[1].update(wanted - found)
        return found

    def shared_bytes(self) -> int:
        return sum(self.known.objects().values())

    def unshared(self, digests: Iterable[bytes]) -> set[bytes]:
        self._look_again()
        return self.known.lacks(digests)

    def fetch(self, digests: Iterable[bytes], progress: Progress = silent) -> None:
        wanted = super().missing(digests)
        if wanted and self.known.lacks(wanted):
            self._look_again()
        if gone := self._fetching.fetch(wanted, progress):
            raise lost(gone.pop())

    # Housekeeping

    def check_shared(
        self, live: Collection[bytes], *, deep: bool = False, progress: Progress = silent
    ) -> Iterator[Finding]:
        return verify.check(self, live, deep=deep, progress=progress)

    def sweep_shared(
        self,
        live: set[bytes],
        again: Callable[[], set[bytes]],
        *,
        thorough: bool = False,
        progress: Progress = silent,
    ) -> Swept:
        with self._sharing:
            return sweep.sweep(self, live, again, thorough=thorough, progress=progress)

    def close(self) -> None:
        super().close()
        self.known.close()


def _is_sound(file: PackFile, item: PackRecord) -> bool:
    """Return True if a record is undamaged. A damaged one must not be shared as if it were sound."""
    try:
        file.prove(item)
    except ValueError:
        return False
    return True
