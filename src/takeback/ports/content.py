"""The port of content: the content of every file, by its digest. The contract is in `takeback.testing`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol

import msgspec

from takeback.ports.journal import Finding
from takeback.ports.progress import Progress, silent

FileId = tuple[int, int, int, int, int]
"""The identity of a file as it was seen: device, inode, size, mtime and ctime in nanoseconds."""


class StoredFile(NamedTuple):
    """A file that was read: the name of its content, and its identity meanwhile.

    `is_plain` says that it has no extended attributes; if not, it may have some.
    """

    path: bytes
    name: bytes
    id: FileId
    is_plain: bool


PRUNED = "its content is no longer kept: pruned by the limits in takeback.toml, or lost"

WhyGone = Callable[[bytes], str]
"""Says why the content with a name is no longer stored, as text for people."""


def pruned(_name: bytes) -> str:
    return PRUNED


class Stats(msgspec.Struct, frozen=True):
    """The size of a store. A blob that is stored twice may count twice in `blobs`."""

    packs: int
    blobs: int
    bytes: int
    index_bytes: int


class StoredContent(NamedTuple):
    """Some content of a path, by name."""

    path: str
    name: bytes
    size: int


class Swept(msgspec.Struct, frozen=True):
    """The result of a sweep. `findings` are damaged blobs, whose packs stay; `stopped` is why it ended early."""

    packs_removed: int = 0
    bytes_freed: int = 0
    bytes_copied: int = 0
    findings: tuple[Finding, ...] = ()
    stopped: str = ""


class BlobStore(Protocol):
    """Bytes by name, which is their digest. What was put and synced is returned unchanged, or not at all.

    A batch is what is put between two syncs. The caller holds the workspace lock from the first `put` of a
    batch until something durable refers to it, and for `sweep`. Reading needs no lock.
    """

    def put(self, data: bytes | memoryview, *, packed: bool = True) -> bytes:
        """Store these bytes and return their digest. Dying now is harmless: nothing refers to them yet.

        `packed=False` means that compressing them is not worth the time.
        """

    def get(self, digest: bytes) -> bytes:
        """Return the verified bytes of this digest. Raise CorruptionError if they are damaged, pruned or lost."""

    def put_named(self, digest: bytes, data: bytes | memoryview) -> None:
        """Store bytes whose digest the caller has computed. A wrong digest is found when they are read."""

    def get_many(self, digests: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Yield each digest with its bytes, once each, in the order that is cheapest to read."""

    def has(self, digest: bytes) -> bool:
        """Return whether `get` would find it."""

    def missing(self, names: Iterable[bytes]) -> set[bytes]:
        """Return those that `get` would not find."""

    def begin(self) -> None:
        """Begin a batch: forget what an earlier one left unsynced, and see what other processes wrote.

        The first `put` after a `sync` begins one by itself; a caller whose batch failed calls this.
        """

    def sync(self) -> None:
        """Make everything put so far survive a power cut.

        If this raises, everything put since the last sync is forgotten: put it again.
        """

    def size_bytes(self) -> int:
        """Return the size of the store on disk. Cheap."""

    def stats(self) -> Stats:
        """Return the size of the store in detail."""

    def check(self, *, deep: bool = False) -> Iterator[Finding]:
        """Yield what differs from what was written; `deep` verifies every blob. Changes nothing."""

    def sweep(
        self,
        live: AbstractSet[bytes],
        *,
        thorough: bool = False,
        copy_bytes_max: int | None = None,
        progress: Progress = silent,
    ) -> Swept:
        """Remove what is not live, except where removing does not pay.

        `thorough` leaves nothing and compresses the rest harder. May be called again after a crash. Never
        removes a live blob, and never needs more room than one pack.
        """

    def close(self) -> None:
        """Release all resources without syncing. May be called twice."""


class Shelf(Protocol):
    """Bytes by name, in a place that other machines can read. What was put never changes."""

    def put_new(self, name: str, data: bytes) -> None:
        """Put them there, unless they are already there. Durable when this returns."""

    def get(self, name: str) -> bytes:
        """Return what was put there, unchanged; raise CorruptionError if that is impossible."""

    def names(self, under: str) -> Iterable[str]:
        """Return all names with this prefix."""


class Contents(Protocol):
    """The content of files, large or sparse, by name."""

    def put(self, fd: int, size: int) -> bytes:
        """Store the first `size` bytes of an open file and return the name of this content."""

    def name(self, fd: int, size: int) -> bytes:
        """Return the name that `put` would return, without storing anything."""

    def put_many(self, files: Iterable[tuple[bytes, int]], root_fd: int) -> Iterator[StoredFile]:
        """Store many files, given by path below `root_fd` and size; with several processes if that pays.

        Yield them in any order. A file that could not be read as a whole has no name. A file that is yielded again
        had to be read again: the last result counts, and nothing is certain before the end. `files` is consumed one
        by one as there is room.
        """

    def put_bytes(self, data: bytes) -> bytes:
        """Store these bytes as the content of a file."""

    def write(self, name: bytes, size: int, fd: int, *, sparse: bool) -> None:
        """Write this content into an empty open file, with holes where there is nothing if `sparse`."""

    def read(self, name: bytes, size: int) -> bytes:
        """Return this content as a whole."""

    def blobs(self, name: bytes, size: int) -> Iterator[bytes]:
        """Yield the names of all blobs that this content consists of."""
