"""Databases that SQLite can no longer read: kept as plain bytes, and replaced as files.

Nothing can be done with them through SQLite. So another file takes the place of a damaged one, if no process has a
lock on it and its bytes are still those that were captured.
"""

from __future__ import annotations

import fcntl
import os

from takeback.core.codec import text_of
from takeback.resources.sqlite import own_files
from takeback.resources.sqlite.image import SUFFIXES, Image, digest_of
from takeback.system import crash_points, durable
from takeback.system.beneath import folder_of, look, open_file

_LOCKS_AT, _LOCKS = 0x40000000, 512
"""The bytes of a file that every SQLite locks."""

_CHUNK_BYTES = 1 << 20

REPLACED = crash_points.crash_point("sqlite-replaced")


def keep(path: bytes, to: bytes) -> Image | None:
    """Copy a damaged database into an empty file; None if the copy would be incomplete."""
    if beside(path):
        return None
    os.truncate(to, 0)
    fd = open_file(path)
    try:
        before = _key(os.fstat(fd))
        with open(to, "r+b") as out:
            at = 0
            while data := os.pread(fd, _CHUNK_BYTES, at):
                out.write(data)
                at += len(data)
            out.flush()
            image = Image(digest_of(out.fileno()), at, wal=False, raw=True)
        return image if _key(os.fstat(fd)) == before == _key(look(path)) else None
    finally:
        os.close(fd)


def replace(path: bytes, expected: str, image: bytes, mode: int, uid: int, gid: int) -> str:
    """Replace a damaged database by an image, or by nothing if none is named. Return why not if that fails."""
    if other := beside(path):
        return f"it is damaged, and {text_of(other)} exists beside it"
    try:
        with folder_of(path) as folder:
            name = os.path.basename(path)
            fd = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, _LOCKS, _LOCKS_AT)
                return _replace(fd, folder, name, expected, image, (mode, uid, gid))
            finally:
                os.close(fd)
    except (BlockingIOError, PermissionError) as error:
        return f"it is damaged, and another process has locked it, or you may not write it: {error.strerror}"
    except OSError as error:
        return f"it could not be written: {error.strerror or error}"


def _replace(
    fd: int, folder: int, name: bytes, expected: str, image: bytes, owned: tuple[int, int, int]
) -> str:
    new = -1
    try:
        if image:
            new = own_files.made(folder, image, *owned)
        if not _is_still(fd, folder, name, expected):
            return "it was changed since the plan was made"
        old, passing = (b".%s.takeback-%s-%d" % (name, word, os.getpid()) for word in (b"old", b"new"))
        # A second name for the old file, until it is certain that it was not written to at the last moment.
        os.link(name, old, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        try:
            if image:
                own_files.named(new, passing, folder)
                os.rename(passing, name, src_dir_fd=folder, dst_dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)
            crash_points.reach(REPLACED)
            if not _is_still(fd, folder, old, expected):
                os.rename(old, name, src_dir_fd=folder, dst_dir_fd=folder)
                return "it was changed since the plan was made"
        finally:
            for left in (passing, old):
                _remove(left, folder)
        durable.fsync(folder)
    finally:
        if new >= 0:
            os.close(new)
    return ""


def tidy(path: bytes, expected: str) -> None:
    """Remove what an interrupted attempt left beside a database: only files whose content is known to be stored."""
    base = b".%s.takeback-" % os.path.basename(path)
    try:
        with folder_of(path) as folder:
            for name in map(os.fsencode, os.listdir(folder)):
                is_old = name.startswith(base + b"old-")
                if name.startswith(base + b"new-") or (is_old and _digest(name, folder) == expected):
                    _remove(name, folder)
    except FileNotFoundError:
        return  # the folder is gone, with everything in it


def _digest(name: bytes, folder: int) -> str:
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        return digest_of(fd)
    finally:
        os.close(fd)


def _is_still(fd: int, folder: int, name: bytes, expected: str) -> bool:
    """Return True if this name leads to the open file, and its bytes are as expected."""
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return _key(os.fstat(fd)) == _key(found) and digest_of(fd) == expected


def _remove(name: bytes, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return


def beside(path: bytes) -> bytes:
    """Return the path of a log or journal that belongs to the database, if there is one."""
    for suffix in (SUFFIXES[0], SUFFIXES[2]):
        try:
            if look(path + suffix).st_size:
                return path + suffix
        except FileNotFoundError:
            continue
    return b""


def _key(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
