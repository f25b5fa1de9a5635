"""A cache of what was known about the databases when they were last looked at, so that the next look is cheap.

If it is missing, damaged or in another format, every database is read again.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec

from takeback.core.change import Version
from takeback.resources.sqlite.own_files import read_start
from takeback.system import cache_file

MAGIC = b"takeback databases 1\n"

_LOG_HEADER_BYTES = 48

Stat = tuple[int, ...]


class DatabaseStat(msgspec.Struct, frozen=True, array_like=True):
    """What shows that a database was not touched: inode, mode, size and times of its files."""

    file: Stat
    wal: Stat
    journal: Stat

    @property
    def latest_ns(self) -> int:
        """When one of them last changed."""
        return max(part[-1] for part in (self.file, self.wal, self.journal) if part)

    @property
    def latest_beside_log_ns(self) -> int:
        """When one of them last changed, the log left aside."""
        return max(part[-1] for part in (self.file, self.journal) if part)


class DatabaseRow(msgspec.Struct, frozen=True, array_like=True):
    """A database as it was captured. A racy one may have changed unnoticed since."""

    seen: DatabaseStat
    version: Version
    racy: bool
    log: bytes = b""
    """The header of the index of the log, if the times of all other files are conclusive. Then this header decides
    instead of the times of the log: while it is the same, nothing was committed."""


class DatabaseCache(msgspec.Struct, array_like=True):
    generation: int
    rows: dict[bytes, DatabaseRow]
    inside: dict[bytes, Stat]


_decoder = msgspec.msgpack.Decoder(DatabaseCache)


def seen(path: bytes, *beside: bytes) -> DatabaseStat | None:
    """Return the present stats of a database's files; None if it does not exist."""
    file = _stat(path)
    if file is None:
        return None
    key = (file.st_dev, file.st_ino, file.st_mode, file.st_size, file.st_mtime_ns, file.st_ctime_ns)
    return DatabaseStat(key, *map(_beside, beside))


def _beside(path: bytes) -> Stat:
    # Not the ctime: SQLite running as root changes it merely by looking.
    found = _stat(path)
    return (found.st_ino, found.st_size, found.st_mtime_ns) if found else ()


def log_header(path: bytes) -> bytes:
    """Return what every commit to the log of a database changes; empty if there is none, or one is being written.

    SQLite keeps it twice in the `-shm` file: a count of commits, the length of the log, its salts, and a checksum
    over all its frames.
    """
    found = _stat(path)
    if found is None or not stat.S_ISREG(found.st_mode):
        return b""
    try:
        data = read_start(path, 2 * _LOG_HEADER_BYTES, found)
    except OSError:
        return b""
    first, second = data[:_LOG_HEADER_BYTES], data[_LOG_HEADER_BYTES:]
    return first if first == second and any(first) else b""


def _stat(path: bytes) -> os.stat_result | None:
    try:
        return os.stat(path, follow_symlinks=False)
    except OSError:
        return None


def load_index(path: Path) -> DatabaseCache | None:
    return cache_file.load(path, MAGIC, _decoder)


def save_index(path: Path, index: DatabaseCache) -> None:
    if not cache_file.save(path, MAGIC, index):
        path.unlink(missing_ok=True)  # the cached one lacks databases
