"""The entries of an index (versions 2 to 4): what is staged, without git's cached file stats."""

from __future__ import annotations

import struct

import msgspec
from blake3 import blake3

_STAT_BYTES = 40
"""Times, device, inode, mode, owner and size come first; the mode is at 24."""
_LENGTH = 0x0FFF
_EXTENDED = 0x4000
_KEPT_FLAGS = 0xB000
_KEPT_MORE = 0x6000
HASH_BYTES = {"sha1": 20, "sha256": 32}


class Staged(msgspec.Struct, frozen=True, gc=False):
    """One entry. `flags` are its stage and the user's marks: intent to add, skip-worktree, assume-unchanged."""

    name: bytes
    mode: int
    object: str
    flags: int
    stat: bytes = b""
    """What git remembers about the file on disk; not part of what is staged."""


class NotAnIndex(ValueError):
    """These bytes are not an index that this version can read."""


class GitIndex(msgspec.Struct, frozen=True):
    """All entries in file order, the trees that contain them, and whether another file is needed."""

    entries: list[Staged]
    trees: set[str]
    split: bool
    needs_more: bool = False
    """Whether it has an extension that is required to read it; the names of such extensions begin in lower case."""


def read(data: bytes, hash_name: str) -> GitIndex:
    """Return the content of an index. Raise NotAnIndex if it cannot be read."""
    if data[:4] != b"DIRC" or len(data) < 12:
        raise NotAnIndex("it does not begin like an index")
    version, count = struct.unpack(">LL", data[4:12])
    if version not in (2, 3, 4):
        raise NotAnIndex(f"version {version} is unknown")
    hash_bytes = HASH_BYTES.get(hash_name, 20)
    try:
        found, at = _entries(data, version, count, hash_bytes)
        parts = {}
        while at + 8 <= len(data) - hash_bytes:
            end = at + 8 + struct.unpack_from(">L", data, at + 4)[0]
            parts[data[at : at + 4]] = data[at + 8 : end]
            at = end
        trees = _trees(parts.get(b"TREE", b""), hash_bytes)
    except (IndexError, ValueError, struct.error) as error:
        raise NotAnIndex("it ends too early") from error
    return GitIndex(found, trees, b"link" in parts, any(name[:1].islower() for name in parts))


def _entries(data: bytes, version: int, count: int, hash_bytes: int) -> tuple[list[Staged], int]:
    found = []
    at, before = 12, b""
    for _ in range(count):
        start = at
        (mode,) = struct.unpack_from(">L", data, at + 24)
        name_end = at + _STAT_BYTES + hash_bytes
        object_name = data[at + _STAT_BYTES : name_end].hex()
        (flags,) = struct.unpack_from(">H", data, name_end)
        at = name_end + 2
        more = 0
        if flags & _EXTENDED:
            (more,) = struct.unpack_from(">H", data, at)
            at += 2
        if version == 4:
            cut, at = _number(data, at)
            end = data.index(b"\0", at)
            name = before[: len(before) - cut] + data[at:end]
            at = end + 1
        else:
            length = flags & _LENGTH
            end = data.index(b"\0", at + (length if length < _LENGTH else 0))
            name = data[at:end]
            # Padded with one to eight zero bytes, so that each entry has a multiple of eight.
            at = start + ((end - start + 8) // 8) * 8
        before = name
        kept = (flags & _KEPT_FLAGS) << 16 | more & _KEPT_MORE
        found.append(Staged(name, mode, object_name, kept, data[start : start + _STAT_BYTES]))
    return found, at


def _trees(data: bytes, hash_bytes: int) -> set[str]:
    """Return the trees.

    The data has for each folder its name, the numbers of entries (or -1) and folders, and its tree.
    """
    found = set()
    at = 0
    while at < len(data):
        numbers = data.index(b"\0", at) + 1
        at = data.index(b"\n", numbers) + 1
        if not data[numbers:at].startswith(b"-"):
            found.add(data[at : at + hash_bytes].hex())
            at += hash_bytes
    return found


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number in the format of pack offsets (seven bits per byte, highest first), and where it ends."""
    byte = data[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, at + 1


def digest(data: bytes, hash_name: str) -> str:
    """Return a name for what is staged, equal for two indexes that differ only in git's cached file stats.

    An index that is split over two files, or cannot be read, is named by its bytes.
    """
    try:
        index = read(data, hash_name)
    except NotAnIndex:
        return f"bytes:{blake3(data).hexdigest()}"
    if index.split:
        return f"bytes:{blake3(data).hexdigest()}"
    hasher = blake3()
    for entry in index.entries:
        line = (entry.mode, entry.flags, entry.object.encode(), len(entry.name), entry.name)
        hasher.update(b"%d %d %s %d %s" % line)
    return hasher.hexdigest()
