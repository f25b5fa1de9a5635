"""What was known of the databases when they were last looked at, kept so that the next look is cheap.

A cache and nothing more: where it is missing, damaged or of another format, every database is read again.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from takeback.core.change import Version
from takeback.system import cache_file

MAGIC = b"takeback databases 1\n"

Stat = tuple[int, ...]


class DatabaseStat(msgspec.Struct, frozen=True, array_like=True):
    """What tells that a database was not touched: inode, mode, size and times of its files."""

    file: Stat
    wal: Stat
    journal: Stat

    @property
    def latest_ns(self) -> int:
        """When one of them last changed."""
        return max(part[-1] for part in (self.file, self.wal, self.journal) if part)


class DatabaseRow(msgspec.Struct, frozen=True, array_like=True):
    """A database as it was captured. A racy one may have changed unseen since."""

    seen: DatabaseStat
    version: Version
    racy: bool


class DatabaseCache(msgspec.Struct, array_like=True):
    generation: int
    rows: dict[bytes, DatabaseRow]
    inside: dict[bytes, Stat]


_decoder = msgspec.msgpack.Decoder(DatabaseCache)


def seen(path: bytes, *beside: bytes) -> DatabaseStat | None:
    """What a database's files look like now; None where there is none."""
    file = _stat(path)
    if file is None:
        return None
    key = (file.st_dev, file.st_ino, file.st_mode, file.st_size, file.st_mtime_ns, file.st_ctime_ns)
    return DatabaseStat(key, *map(_beside, beside))


def _beside(path: bytes) -> Stat:
    # Not the time of the last change of any kind: SQLite, as root, moves that one by looking.
    found = _stat(path)
    return (found.st_ino, found.st_size, found.st_mtime_ns) if found else ()


def _stat(path: bytes) -> os.stat_result | None:
    try:
        return os.stat(path, follow_symlinks=False)
    except OSError:
        return None


def load_index(path: Path) -> DatabaseCache | None:
    return cache_file.load(path, MAGIC, _decoder)


def save_index(path: Path, index: DatabaseCache) -> None:
    if not cache_file.save(path, MAGIC, index):
        path.unlink(missing_ok=True)  # it does not know of every database
