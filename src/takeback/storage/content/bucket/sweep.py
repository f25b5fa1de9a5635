"""Removing unneeded objects from the bucket, while other machines may write.

A machine may name a blob that it found in the bucket; a clean-up elsewhere must not remove it at the same moment.
The ticket keeps them apart: a lease in the journal, without which no append that names content succeeds.

1. Condemn: an object `condemned/…` names the packs to remove. A machine that lists the bucket from now on does not
   rely on them.
2. End all tickets. An append under one of them either comes before this, and is seen in step 3; or it is refused,
   and its machine takes a new ticket and then lists the bucket, so that it sees what is condemned.
3. Read in the journal what is live now, and list the bucket. What is live and only in condemned packs is copied into
   new ones.
4. Remove the condemned packs, then the objects that named them.

No step relies on a clock. A clean-up that died leaves condemned packs, which the next one handles in the same way.
Of two at once, the one that lists later sees what the other has condemned, and copies what both would remove.
ADR 22 has the proof.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import msgspec

from takeback.errors import CorruptionError
from takeback.ports.content import Swept
from takeback.ports.journal import Finding
from takeback.ports.progress import Progress
from takeback.storage.content.bucket import listing
from takeback.storage.content.bucket.local_index import TICKETS, Ticket
from takeback.storage.content.bucket.objects import ROW_BYTES, Piece
from takeback.storage.content.names import text_name
from takeback.storage.content.packs.format import zstd
from takeback.storage.content.packs.format.record import PackRecord
from takeback.system import crash_points

if TYPE_CHECKING:
    from takeback.storage.content.bucket.sharing import SharedStore

KEEP_SHARE = 0.5
"""The live share above which an object is not worth copying."""
SMALL_BYTES, SMALL_MAX = 1 << 20, 64
"""More small objects than this are merged into large ones: each costs a machine without an index one request."""

CONDEMNED = crash_points.crash_point("bucket-gc-condemned")
ENDED = crash_points.crash_point("bucket-gc-ended")
COPIED = crash_points.crash_point("bucket-gc-copied")
REMOVED = crash_points.crash_point("bucket-gc-removed")
FORGOTTEN = crash_points.crash_point("bucket-gc-forgotten")


def sweep(
    store: SharedStore,
    live: set[bytes],
    again: Callable[[], set[bytes]],
    *,
    thorough: bool,
    progress: Progress,
) -> Swept:
    """Remove what is not live. `again` returns what is live at the moment it is called, by the journal."""
    store.share(progress)
    markers, victims = store.look().markers, _victims(store, live, 1.0 if thorough else KEEP_SHARE)
    if not victims and not markers:
        return Swept()
    if victims:
        store.bucket.create(f"{listing.CONDEMNED}/{secrets.token_hex(12)}", msgspec.json.encode(victims))
    crash_points.reach(CONDEMNED)
    leases = store.leases()
    leases.release([lease.fence for lease in leases.all() if lease.name.startswith(TICKETS)])
    crash_points.reach(ENDED)
    live = again()
    # Handle only what this one listing shows: another clean-up may condemn more meanwhile.
    ticket, found = store.look_anew()
    doomed = found.condemned & found.packs.keys()
    doomed_live = [digest for digest in store.known.lacks(live) if store.known.places(digest)]
    copied, findings, unread = copy(store, doomed_live, ticket, progress)
    kept = {place.object for digest in unread for place in store.known.places(digest)}
    crash_points.reach(COPIED)
    doomed -= kept
    store.bucket.remove(progress("Removing from the bucket", sorted(doomed), len(doomed)))
    crash_points.reach(REMOVED)
    if not kept:
        store.bucket.remove(found.markers)
    crash_points.reach(FORGOTTEN)
    store.look()
    return Swept(len(doomed), sum(found.packs[name] for name in doomed), copied, tuple(findings))


def _victims(store: SharedStore, live: set[bytes], keep_share: float) -> list[str]:
    """Return the objects worth removing, judged by their live content."""
    sizes = store.known.objects()
    live_bytes: Counter[str] = Counter()
    all_bytes: Counter[str] = Counter()
    seen: set[bytes] = set()
    for name, digest, stored_bytes in store.known.contents():
        costs = stored_bytes + ROW_BYTES
        all_bytes[name] += costs
        if digest in live and digest not in seen:  # a duplicate counts only in the first object that has it
            seen.add(digest)
            live_bytes[name] += costs
    # The content of an unreadable object is unknown, so it stays.
    unread = {name for name, _ in store.known.damaged()}
    small = [name for name, size in sizes.items() if size < SMALL_BYTES]
    merged = set(small) if len(small) > SMALL_MAX else set()
    return sorted(
        name
        for name in sizes
        if name not in unread and (_pays(live_bytes[name], all_bytes[name], keep_share) or name in merged)
    )


def _pays(live_bytes: int, all_bytes: int, keep_share: float) -> bool:
    """Return True if an object is worth removing: nothing in it is live, or too little."""
    return not live_bytes or live_bytes < keep_share * all_bytes


def copy(
    store: SharedStore, digests: Collection[bytes], ticket: Ticket, progress: Progress
) -> tuple[int, list[Finding], set[bytes]]:
    """Copy these blobs into new objects.

    Return the bytes copied, the findings, and the blobs that could not be read.
    """
    batch: list[Piece] = []
    size = copied = 0
    findings: list[Finding] = []
    gone: set[bytes] = set()
    for digest in progress("Copying within the bucket", digests, len(digests)):
        try:
            data = store.get(digest)
        except CorruptionError as error:
            gone.add(digest)
            findings.append(Finding(store.bucket.name, f"the content {text_name(digest)}: {error.message}"))
            continue
        codec, payload = zstd.compress(data)
        batch.append((PackRecord(0, codec, len(data), len(payload), digest), payload))
        size += len(payload)
        copied += len(payload)
        if size >= store.object_bytes_max:
            store.upload(batch, ticket)
            batch, size = [], 0
    if batch:
        store.upload(batch, ticket)
    return copied, findings, gone
