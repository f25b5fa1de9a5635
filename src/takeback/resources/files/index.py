"""What was known of the tree when it was last looked at, kept so that the next look is cheap.

A cache and nothing more: where it is missing, damaged or of another format, every file is read again.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from blake3 import blake3

from takeback.resources.files.deltas import Deltas
from takeback.resources.files.tree import Folder

MAGIC = b"takeback index 5\n"


class Index(msgspec.Struct, array_like=True):
    """A tree by its name, with the keys under which its files were read, and what was left out of it."""

    tree: bytes
    root: Folder
    generation: int
    rules: str
    stated: dict[bytes, str]
    deltas: Deltas


_decoder = msgspec.msgpack.Decoder(Index)


def load_index(path: Path) -> Index | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    body = memoryview(data)[len(MAGIC) + 32 :]
    if data[: len(MAGIC)] != MAGIC or blake3(body).digest() != data[len(MAGIC) : len(MAGIC) + 32]:
        return None
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError:
        return None


def save_index(path: Path, index: Index) -> None:
    """Replace the cache as a whole. Not synced: the digest tells a torn one, and it can be made again."""
    body = msgspec.msgpack.encode(index)
    temporary = path.with_suffix(f".{os.getpid()}")
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as out:
            out.write(MAGIC + blake3(body).digest() + body)
        os.rename(temporary, path)
    except OSError:
        # No room for a cache is no reason to fail: the next look reads everything.
        temporary.unlink(missing_ok=True)
