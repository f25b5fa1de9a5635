"""The objects in packs, read from the pack indexes. Names are read by first byte, because most lookups need few."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

_MAGIC = b"\xfftOc"
_FANS = 256
_NAMED = re.compile(r"pack-([0-9a-f]+)")

FANS = tuple(f"{number:02x}" for number in range(_FANS))
"""The folders of loose objects: the first byte of their names."""


def stems(folder: Iterable[str]) -> set[str]:
    """Return the packs among these files. A pack without its index, or an index without its pack, does not count."""
    files = set(folder)
    return {name[:-4] for name in files if name.endswith(".idx") and f"{name[:-4]}.pack" in files}


def hash_bytes(stem: str) -> int:
    """Return the length of object names; a pack is named by the same algorithm."""
    found = _NAMED.fullmatch(stem)
    return 32 if found and len(found[1]) == 64 else 20


class Packs:
    """Some open packs of one folder."""

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        self._open: list[_Index] = []
        for stem in names:
            try:
                self._open.append(_Index(folder / f"{stem}.idx", hash_bytes(stem)))
            except (FileNotFoundError, PermissionError):
                # Just repacked, or not readable for us: git could not read it either.
                continue

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for index in self._open:
            os.close(index.fd)

    def names(self, fan: int) -> set[bytes]:
        """Return the objects whose names begin with this byte."""
        return {name for index in self._open for name in index.names(fan)}


class _Index:
    def __init__(self, path: Path, size: int) -> None:
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._new = os.pread(self.fd, 4, 0) == _MAGIC
        self._size = size
        self._start = 8 if self._new else 0
        table = os.pread(self.fd, _FANS * 4, self._start)
        self._ends = [int.from_bytes(table[at : at + 4], "big") for at in range(0, len(table), 4)]

    def names(self, fan: int) -> Iterable[bytes]:
        if len(self._ends) < _FANS:
            # Truncated: it has no readable object.
            return ()
        first, end = (self._ends[fan - 1] if fan else 0), self._ends[fan]
        # In the old format the offset of each object comes before its name.
        before = 0 if self._new else 4
        each = self._size + before
        data = os.pread(self.fd, max(0, end - first) * each, self._start + _FANS * 4 + first * each)
        return (data[at + before : at + each] for at in range(0, len(data) - each + 1, each))
