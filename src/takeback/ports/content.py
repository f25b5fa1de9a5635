"""The port of content: what was in every file, by its digest. The contract is in `takeback.testing`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Protocol

import msgspec

from takeback.ports.journal import Finding
from takeback.ports.progress import Progress, silent

FileId = tuple[int, int, int, int, int]
"""What tells that a file is the one that was seen: device, inode, size, mtime and ctime in nanoseconds."""


class Stats(msgspec.Struct, frozen=True):
    """How much there is. `blobs` may count a blob twice that is stored twice."""

    packs: int
    blobs: int
    bytes: int
    index_bytes: int


class Swept(msgspec.Struct, frozen=True):
    """What a sweep did. `findings` are damaged blobs, whose packs stay; `stopped` is why it ended early."""

    packs_removed: int = 0
    bytes_freed: int = 0
    bytes_copied: int = 0
    findings: tuple[Finding, ...] = ()
    stopped: str = ""


class BlobStore(Protocol):
    """Bytes by their name, which is their digest: what was put and synced comes back unchanged, or not at all.

    A batch is what is put between two syncs. The caller holds the workspace lock from the first `put` of a
    batch until something durable refers to it, and for `sweep`. Reading needs no lock.
    """

    def put(self, data: bytes | memoryview, *, packed: bool = True) -> bytes:
        """Keep these bytes and return their digest. Harmless if we die now: nothing refers to it yet.

        `packed=False` says that compressing them is not worth the time.
        """

    def get(self, digest: bytes) -> bytes:
        """The bytes of this digest, proved. Raises CorruptionError if they are damaged, pruned or lost."""

    def put_named(self, digest: bytes, data: bytes | memoryview) -> None:
        """`put` for a caller that has hashed already. A wrong name is found when it is read."""

    def get_many(self, digests: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Each digest with its bytes, once each, in the order that is cheapest to read."""

    def has(self, digest: bytes) -> bool:
        """Whether `get` would find it."""

    def missing(self, names: Iterable[bytes]) -> set[bytes]:
        """Those that `get` would not find."""

    def begin(self) -> None:
        """Begin a batch: forget what an earlier one left unsynced, and see what other processes wrote.

        The first `put` after a `sync` begins one by itself; a caller whose batch failed calls this.
        """

    def sync(self) -> None:
        """Everything put so far survives a power cut when this returns.

        If this raises, everything put since the last sync is forgotten: put it again.
        """

    def size_bytes(self) -> int:
        """The room that the store takes. Cheap."""

    def stats(self) -> Stats:
        """How much there is."""

    def check(self, *, deep: bool = False) -> Iterator[Finding]:
        """Name whatever is not as it was written; `deep` proves every blob. Nothing is changed."""

    def sweep(
        self,
        live: AbstractSet[bytes],
        *,
        thorough: bool = False,
        copy_bytes_max: int | None = None,
        progress: Progress = silent,
    ) -> Swept:
        """Remove what is not live, and may leave some of it where removing does not pay.

        `thorough` leaves nothing and compresses the rest harder. May be called again after a crash. Never
        removes a live blob, and never needs more room than one pack.
        """

    def close(self) -> None:
        """Let go without syncing. May be called twice."""


class Shelf(Protocol):
    """Bytes by name where other machines find them. What was put never changes."""

    def put_new(self, name: str, data: bytes) -> None:
        """Put them there, unless they are there. Durable when this returns."""

    def get(self, name: str) -> bytes:
        """What was put there, unchanged; raises CorruptionError where it is not."""

    def names(self, under: str) -> Iterable[str]:
        """All names that begin so."""


class Contents(Protocol):
    """What is in files, large or sparse, by name."""

    def put(self, fd: int, size: int) -> bytes:
        """Keep the first `size` bytes of an open file and return the name of this content."""

    def name(self, fd: int, size: int) -> bytes:
        """The name that `put` would return. Nothing is kept."""

    def put_many(
        self, files: Iterable[tuple[bytes, int]], root_fd: int
    ) -> Iterator[tuple[bytes, bytes, FileId]]:
        """Keep many files at once, given by path below `root_fd` and size; with several processes if that pays.

        Gives for each, in any order, its path, the name of its content, and what the file was while it was read.
        One that could not be read as a whole has no name. One that is given again had to be read again: the last
        word counts, and nothing is certain before the end. They are asked for one by one as there is room.
        """

    def put_bytes(self, data: bytes) -> bytes:
        """Keep these bytes as a file's content would be kept."""

    def write(self, name: bytes, size: int, fd: int, *, sparse: bool) -> None:
        """Write this content into an empty open file, with holes where there is nothing if `sparse`."""

    def read(self, name: bytes, size: int) -> bytes:
        """This content as a whole."""

    def blobs(self, name: bytes, size: int) -> Iterator[bytes]:
        """The names of all blobs that this content is made of."""
