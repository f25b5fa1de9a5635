"""All databases at one moment, as a blob: what a mark stands for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.codec import text_of
from takeback.errors import CorruptionError
from takeback.ports.content import BlobStore, Contents
from takeback.resources.sqlite.image import kept_of

Listing = dict[bytes, Version]
"""Every database by its path. One outside the root is in it also where it is not there."""

NONE = "none"
"""The state without any database: nothing has to be kept for it."""

_PREFIX = "b3:"
_decoder = msgspec.msgpack.Decoder(list[tuple[bytes, Version]])


def store(listing: Listing, blobs: BlobStore) -> str:
    if not listing:
        return NONE
    return f"{_PREFIX}{blobs.put(msgspec.msgpack.encode(sorted(listing.items()))).hex()}"


def load(state: str, blobs: BlobStore) -> Listing:
    if state == NONE:
        return {}
    return dict(_decoder.decode(blobs.get(_name(state))))


def is_kept(state: str, blobs: BlobStore) -> bool:
    return state == NONE or blobs.has(_name(state))


def changes(since: Listing, until: Listing) -> Iterator[Change]:
    """How two moments differ. One outside the root counts only from the moment on at which it was looked after."""
    for path in sorted(since.keys() | until.keys()):
        if path.startswith(b"/") and not (path in since and path in until):
            continue
        before, after = since.get(path, ABSENT), until.get(path, ABSENT)
        if not before.alike(after):
            yield Change(Target("sqlite", text_of(path)), before, after)


def reach(states: Iterable[str], blobs: BlobStore, contents: Contents) -> set[bytes]:
    """Every blob that these need. The first must be whole; of an older one, what is left counts."""
    needed: set[bytes] = set()
    for number, state in enumerate(states):
        if state == NONE:
            continue
        needed.add(_name(state))
        try:
            for version in load(state, blobs).values():
                if kept := kept_of(version):
                    needed.update(contents.blobs(bytes.fromhex(kept.content), kept.size))
        except CorruptionError:
            # Of an older one a part may be gone already.
            if number == 0:
                raise
    return needed


def _name(state: str) -> bytes:
    if not state.startswith(_PREFIX):
        raise CorruptionError(f"{state!r} is not the name of a list of databases")
    return bytes.fromhex(state[len(_PREFIX) :])
