"""What a store of blobs promises, in sentences that every implementation keeps.

The contract is a public test suite, `takeback.testing.blob_contract`; the store on disk and the one in memory
both pass it.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Protocol

import msgspec

from takeback.core.codec import ALGORITHM
from takeback.errors import BackendError, ContentGone, NoRoom, UsageError
from takeback.ports.journal import Finding

BLOB_BYTES_MAX = 1 << 30
DIGEST_BYTES = 32

KEEP_SHARE = 0.8
"""A pack with more live bytes than this is not worth rewriting."""


def text_name(digest: bytes) -> str:
    """A digest as people and the journal see it."""
    return f"{ALGORITHM}:{digest.hex()}"


def raw_name(text: str) -> bytes:
    """The digest that `text_name` wrote."""
    algorithm, _, digits = text.partition(":")
    try:
        digest = bytes.fromhex(digits)
    except ValueError:
        digest = b""
    if algorithm != ALGORITHM or len(digest) != DIGEST_BYTES:
        raise UsageError(f"{text!r} is not the name of a content", hint=f"names look like {ALGORITHM}:8a3f…")
    return digest


def lost(digest: bytes) -> ContentGone:
    return ContentGone(
        f"the content {text_name(digest)} was pruned or is lost; nothing was changed",
        hint="`takeback verify --deep` tells what is still there",
    )


NO_ROOM = {errno.ENOSPC, errno.EDQUOT}


def not_written(error: OSError) -> BackendError:
    kind = NoRoom if error.errno in NO_ROOM else BackendError
    return kind(
        f"content could not be stored ({error.strerror}); what was put since the last sync is forgotten",
        hint="make room on the disk (`takeback gc` removes what is not needed) and try again",
    )


def not_read(error: OSError) -> BackendError:
    return BackendError(
        f"the content store could not be read ({error.strerror}); nothing was changed",
        hint=f"look at {error.filename}" if error.filename else "look at the disk",
    )


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


class Sink(Protocol):
    """Where content can be put."""

    def put(self, data: bytes | memoryview) -> bytes:
        """Keep these bytes and return their digest. Harmless if we die now: nothing refers to it yet."""


class Source(Protocol):
    """Where content can be had."""

    def get(self, digest: bytes) -> bytes:
        """The bytes of this digest, proved. Raises CorruptionError if they are damaged, pruned or lost."""


class Blobs(Sink, Source, Protocol):
    """Content by its digest: bytes that were put and synced come back unchanged, or not at all.

    A batch is what is put between two syncs. The caller holds the workspace lock from the first `put` of a
    batch until something durable refers to it, and for `sweep`. Reading needs no lock.
    """

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
        self, live: AbstractSet[bytes], *, thorough: bool = False, copy_bytes_max: int | None = None
    ) -> Swept:
        """Remove what is not live, and may leave some of it where removing does not pay.

        `thorough` leaves nothing and compresses the rest harder. May be called again after a crash. Never
        removes a live blob, and never needs more room than one pack.
        """

    def close(self) -> None:
        """Let go without syncing. May be called twice."""
