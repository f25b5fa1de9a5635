"""A cache of what was known about the tree when it was last looked at, so that the next look is cheap.

If it is missing, damaged or in another format, every file is read again.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from takeback.resources.files.tree.deltas import Deltas
from takeback.resources.files.tree.tree import TreeFolder
from takeback.system import cache_file

MAGIC = b"takeback index 6\n"


class TreeCache(msgspec.Struct, array_like=True):
    """A tree by its name, with the keys under which its files were read, and what was left out of it."""

    tree: bytes
    root: TreeFolder
    generation: int
    rules: str
    stated: dict[bytes, str]
    deltas: Deltas


_decoder = msgspec.msgpack.Decoder(TreeCache)


def load_index(path: Path) -> TreeCache | None:
    return cache_file.load(path, MAGIC, _decoder)


def save_index(path: Path, index: TreeCache) -> None:
    cache_file.save(path, MAGIC, index)
