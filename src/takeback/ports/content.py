"""What the engine needs from the outside, in sentences that every implementation keeps.

The contract of each port is a public test suite in `takeback.testing`; the in-memory implementation passes the
same suite as the durable ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

FileId = tuple[int, int, int, int, int]
"""What tells that a file is the one that was seen: device, inode, size, mtime and ctime in nanoseconds."""


class BlobStore(Protocol):
    """Bytes by their name, which is their digest. What was put and synced comes back unchanged, or not at all."""

    def put(self, data: bytes, *, packed: bool = True) -> bytes:
        """Keep these bytes and return their name. Harmless if we die now: nothing refers to it yet.

        `packed=False` says that compressing them is not worth the time.
        """

    def get(self, name: bytes) -> bytes:
        """The bytes of this name, checked. Raises CorruptionError if they are damaged or gone."""

    def has(self, name: bytes) -> bool:
        """Whether `get` would find it."""

    def missing(self, names: Iterable[bytes]) -> set[bytes]:
        """Those that `get` would not find."""

    def sync(self) -> None:
        """Everything put so far survives a power cut when this returns."""


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
