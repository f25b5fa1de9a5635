"""Learning what the bucket contains: one listing, and the indexes of new objects."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple, TypeVar

import msgspec

from takeback.errors import FormatTooNew
from takeback.ports.progress import Progress
from takeback.storage.content.bucket import objects
from takeback.storage.content.bucket.client import Bucket
from takeback.storage.content.bucket.encryption import Seal, wrong_key
from takeback.storage.content.bucket.local_index import Listed

PACKS, CONDEMNED, FORMAT = "packs", "condemned", "format"
VERSION = 1
FIRST_BYTES = 64 << 10
"""The part of an object that is read first: its index, unless it has more than about a thousand blobs."""
AT_ONCE = 8

T = TypeVar("T")
R = TypeVar("R")


class About(msgspec.Struct, frozen=True):
    """The object `format`, which describes the others."""

    format: int
    sealed: bool
    check: str = ""
    """Differs between keys."""


class Listing(NamedTuple):
    """The content of the bucket at one moment."""

    packs: dict[str, int]
    markers: tuple[str, ...]
    condemned: frozenset[str]


def begin(bucket: Bucket, seal: Seal) -> None:
    """Make sure that the folder has this format and key; start it if it is new."""
    if not refuse_unlike(bucket, seal) and not bucket.create(FORMAT, msgspec.json.encode(_about(seal))):
        refuse_unlike(bucket, seal)  # another process was first


def refuse_unlike(bucket: Bucket, seal: Seal) -> bool:
    """Raise an error for a newer format or another key. Return whether the folder exists at all."""
    if (found := bucket.read(FORMAT)) is None:
        return False
    about = msgspec.json.decode(found, type=About)
    if about.format > VERSION:
        raise FormatTooNew(
            f"{bucket.name} was written in format {about.format}; this Takeback reads up to {VERSION}",
            hint="use the newer Takeback that wrote it; nothing was changed",
        )
    if about != _about(seal):
        raise wrong_key(bucket.name, is_sealed=about.sealed, has_key=seal.is_sealed)
    return True


def _about(seal: Seal) -> About:
    return About(VERSION, seal.is_sealed, seal.check())


def look(bucket: Bucket) -> Listing:
    """List the bucket: first what is condemned, then the packs.

    In the other order a pack could be listed that is then removed together with its marker, so that it looks sound.
    """
    markers = tuple(bucket.list(CONDEMNED))
    condemned: set[str] = set()
    for marker in markers:
        names = bucket.read(marker)
        condemned.update(msgspec.json.decode(names, type=list[str]) if names else ())
    return Listing(bucket.list(PACKS), markers, frozenset(condemned))


def learn(
    bucket: Bucket, seal: Seal, listing: Listing, known: Collection[str], progress: Progress
) -> Iterator[Listed]:
    """Yield the unknown objects of a listing, with their indexes."""
    new = [name for name in listing.packs if name not in known]
    told = progress("Looking at what is in the bucket", new, len(new)) if len(new) > AT_ONCE else new
    for listed in at_once(lambda name: index_of(bucket, seal, name, listing.packs[name]), told):
        if listed is not None:
            yield listed


def index_of(bucket: Bucket, seal: Seal, name: str, size: int) -> Listed | None:
    """Return the index of an object; None if it is gone."""
    data = bucket.read(name, 0, min(size, FIRST_BYTES)) if size else b""
    if data is None:
        return None
    try:
        end = objects.index_end(data, name)
        if end > len(data) and end <= size:
            data = bucket.read(name, 0, end)
        return Listed(name, size, objects.index(data or b"", name, seal))
    except objects.Damaged as error:
        return Listed(name, size, (), str(error))


def at_once(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yield the results in order, working on a few items in parallel, and hardly ahead of the caller."""
    waiting = iter(items)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = [pool.submit(work, item) for item in islice(waiting, AT_ONCE)]
        while running:
            yield running.pop(0).result()
            running += [pool.submit(work, item) for item in islice(waiting, 1)]
