"""Three-way merge of what is staged, by names: yours stays, the agent's goes."""

from __future__ import annotations

import hashlib
import struct

from takeback.resources.git.format import index_file
from takeback.resources.git.format.index_file import HASH_BYTES, GitIndex, NotAnIndex, Staged

_NAME_LENGTH_MAX = 0x0FFF
_EXTENDED = 0x4000


def merged(mine: bytes, base: bytes, goal: bytes) -> bytes | None:
    """Apply the difference between `base` and `goal` to `mine`; None if both changed a name, or it is unreadable."""
    hash_name = hash_of(mine)
    try:
        found = [index_file.read(data, hash_name) for data in (mine, base, goal)]
    except NotAnIndex:
        return None
    if any(index.needs_more for index in found):
        return None
    ours, old, new = (_by_name(index) for index in found)
    result: list[Staged] = []
    for name in sorted(ours.keys() | old.keys() | new.keys()):
        versions = [side.get(name, []) for side in (ours, old, new)]
        said = [[(e.mode, e.object, e.flags) for e in version] for version in versions]
        if said[0] == said[2] or said[1] == said[2]:
            result += versions[0]
        elif said[0] == said[1]:
            result += versions[2]
        else:
            return None
    return _written(result, hash_name)


def hash_of(data: bytes) -> str:
    """Return the algorithm of the file's checksum; git may be configured not to write one."""
    for name, size in HASH_BYTES.items():
        if hashlib.new(name, data[:-size]).digest() == data[-size:]:
            return name
    return "sha1"


def _by_name(index: GitIndex) -> dict[bytes, list[Staged]]:
    found: dict[bytes, list[Staged]] = {}
    for entry in index.entries:
        found.setdefault(entry.name, []).append(entry)
    return found


def _written(entries: list[Staged], hash_name: str) -> bytes:
    """Return an index with these entries, and without extensions, which git recreates."""
    extended = any(entry.flags & 0xFFFF for entry in entries)
    data = bytearray(b"DIRC" + struct.pack(">LL", 3 if extended else 2, len(entries)))
    for entry in entries:
        high, more = entry.flags >> 16, entry.flags & 0xFFFF
        flags = high | min(len(entry.name), _NAME_LENGTH_MAX) | (_EXTENDED if more else 0)
        row = entry.stat + bytes.fromhex(entry.object) + struct.pack(">H", flags)
        row += (struct.pack(">H", more) if more else b"") + entry.name
        data += row + b"\0" * (8 - len(row) % 8)
    return bytes(data) + hashlib.new(hash_name, data).digest()
