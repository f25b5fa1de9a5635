"""All databases at one moment, as a blob: the content of a mark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

import msgspec

from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.codec import text_of
from takeback.errors import CorruptionError
from takeback.ports.content import BlobStore, Contents
from takeback.resources.sqlite.framework_stores import is_left_out
from takeback.resources.sqlite.image import kept_of

Listing = dict[bytes, Version]
"""Every database by its path. One outside the root is listed even if it does not exist."""

NONE = "none"
"""The state without any database, for which nothing is stored."""

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


def changes(since: Listing, until: Listing, *, with_stores: bool = False) -> Iterator[Change]:
    """Yield how two moments differ. A database outside the root counts only from when it was first captured.

    The same holds for one that was left out. `with_stores` includes those that were left out and are captured at the
    second moment.
    """
    for path in sorted(since.keys() | until.keys()):
        if path.startswith(b"/") and not (path in since and path in until):
            continue
        before, after = since.get(path, ABSENT), until.get(path, ABSENT)
        if is_left_out(after) or (is_left_out(before) and not (with_stores and after)):
            continue
        if not before.alike(after):
            yield Change(Target("sqlite", text_of(path)), before, after)


def reach(
    states: Iterable[str], blobs: BlobStore, contents: Contents, gone: AbstractSet[bytes] = frozenset()
) -> set[bytes]:
    """Return every blob that these states need, without the images `gone`.

    The first must be complete; of older ones, what is left counts.
    """
    needed: set[bytes] = set()
    for number, state in enumerate(states):
        if state == NONE:
            continue
        needed.add(_name(state))
        try:
            for version in load(state, blobs).values():
                if (kept := kept_of(version)) and bytes.fromhex(kept.content) not in gone:
                    needed.update(contents.blobs(bytes.fromhex(kept.content), kept.size))
        except CorruptionError:
            # Part of an older one may already be gone.
            if number == 0:
                raise
    return needed


def _name(state: str) -> bytes:
    if not state.startswith(_PREFIX):
        raise CorruptionError(f"{state!r} is not the name of a list of databases")
    return bytes.fromhex(state[len(_PREFIX) :])
