"""An independent picture of a directory tree, and the differences between two pictures.

This shares no code with the product: it is the witness. It walks with directory descriptors, so that paths
longer than PATH_MAX are seen; it never follows a link and never waits for a fifo.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import stat
import tempfile
from collections import defaultdict
from typing import NamedTuple

KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "character device",
    stat.S_IFBLK: "block device",
}
BLOCK = 64 * 1024
ROOT = b"."
NAME_SHOWN = 220
ACL_NAMES = ("system.posix_acl_access", "system.posix_acl_default")


class Entry(NamedTuple):
    """Everything about one path that a person could miss after an undo."""

    kind: str
    mode: int
    size: int
    content: str
    link: bytes
    mtime_ns: int
    xattrs: tuple[tuple[str, bytes], ...]
    hardlinks: frozenset[bytes]
    sparse: bool
    uid: int
    gid: int
    device: int


Picture = dict[bytes, Entry]


def picture(root: bytes, *, git: bool = True) -> Picture:
    """Look at everything under `root`; with `git=False` its own `.git` is left out."""
    seen: Picture = {}
    inodes: dict[tuple[int, int], set[bytes]] = defaultdict(set)
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        seen[ROOT] = _entry(os.fstat(fd), b"", fd)
        _walk(fd, b"", seen, inodes, skip=frozenset() if git else frozenset({b".git"}))
    finally:
        os.close(fd)
    for paths in inodes.values():
        # A name outside the tree is no part of its picture: git's objects are kept by one.
        group = frozenset(paths if len(paths) > 1 else ())
        for path in paths:
            seen[path] = seen[path]._replace(hardlinks=group)
    _see_databases(root, seen)
    return seen


def _see_databases(root: bytes, seen: Picture) -> None:
    """A database is what is in it: SQLite lays out its file and its log anew as it likes."""
    for path, entry in list(seen.items()):
        if entry.kind == "file" and entry.size and entry.size % 512 == 0:
            try:
                with open(os.path.join(root, path), "rb") as file:
                    is_database = file.read(16) == b"SQLite format 3\0"
            except OSError:
                continue  # closed, or too deep to be opened by its name
            if is_database:
                seen[path] = entry._replace(content=_dump(os.path.join(root, path)), size=0)
                for end in (b"-wal", b"-shm", b"-journal"):
                    seen.pop(path + end, None)


def _dump(path: bytes) -> str:
    """The digest of everything in a database, read from a copy, so that nothing beside it is touched."""
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "copy")
        for end in ("", "-wal", "-journal"):
            if os.path.exists(path + end.encode()):
                shutil.copyfile(path + end.encode(), os.fsencode(copy + end))
        db = sqlite3.connect(copy)
        try:
            return hashlib.sha256("\n".join(db.iterdump()).encode()).hexdigest()
        finally:
            db.close()


def _walk(
    fd: int,
    prefix: bytes,
    seen: Picture,
    inodes: dict[tuple[int, int], set[bytes]],
    skip: frozenset[bytes],
) -> None:
    for name in sorted(map(os.fsencode, os.listdir(fd))):
        if name in skip:
            continue
        path = prefix + name
        info = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if stat.S_ISLNK(info.st_mode):
            seen[path] = _entry(info, os.readlink(name, dir_fd=fd), None)
        elif stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode):
            _look_inside(fd, name, path, info, seen, inodes)
        else:
            seen[path] = _entry(info, b"", None)
        if info.st_nlink > 1 and not stat.S_ISDIR(info.st_mode):
            inodes[info.st_dev, info.st_ino].add(path)


def _look_inside(
    fd: int,
    name: bytes,
    path: bytes,
    info: os.stat_result,
    seen: Picture,
    inodes: dict[tuple[int, int], set[bytes]],
) -> None:
    try:
        child = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=fd)
    except PermissionError:
        seen[path] = _entry(info, b"", None)._replace(content="unreadable")
        return
    try:
        seen[path] = _entry(info, b"", child)
        if stat.S_ISDIR(info.st_mode):
            _walk(child, path + b"/", seen, inodes, frozenset())
    finally:
        os.close(child)


def _entry(info: os.stat_result, link: bytes, fd: int | None) -> Entry:
    regular = stat.S_ISREG(info.st_mode)
    directory = stat.S_ISDIR(info.st_mode)
    return Entry(
        kind=KINDS[stat.S_IFMT(info.st_mode)],
        # A link's own mode means nothing on Linux, and cannot be set.
        mode=0 if stat.S_ISLNK(info.st_mode) else stat.S_IMODE(info.st_mode),
        size=info.st_size if regular else 0,
        content=_digest(fd, info.st_size) if regular and fd is not None else "",
        link=link,
        mtime_ns=info.st_mtime_ns,
        xattrs=_xattrs(fd) if fd is not None and (regular or directory) else (),
        hardlinks=frozenset(),
        sparse=regular and info.st_blocks * 512 + BLOCK < info.st_size,
        uid=info.st_uid,
        gid=info.st_gid,
        device=info.st_rdev,
    )


def _digest(fd: int, size: int) -> str:
    """Sum up the content, whatever its holes: only blocks that are not all zero count, with their places."""
    total = hashlib.sha256(b"%d" % size)
    zero = bytes(BLOCK)
    place = 0
    while place < size:
        try:
            place = os.lseek(fd, place, os.SEEK_DATA) // BLOCK * BLOCK
        except OSError:  # no data up to the end
            break
        block = os.pread(fd, BLOCK, place)
        if block and block != zero[: len(block)]:
            total.update(b"%d:" % place + hashlib.sha256(block).digest())
        place += BLOCK
    return total.hexdigest()


def _xattrs(fd: int) -> tuple[tuple[str, bytes], ...]:
    if not hasattr(os, "listxattr"):
        return ()
    names = (n for n in os.listxattr(fd) if n.startswith("user.") or n in ACL_NAMES)
    return tuple((name, os.getxattr(fd, name)) for name in sorted(names))


def differences(before: Picture, after: Picture) -> list[str]:
    """Every difference in words, one a line, sorted by path; none means that nobody could tell."""
    found = []
    for path in sorted(before.keys() | after.keys()):
        name = path.decode("utf-8", "backslashreplace")
        name = name if len(name) <= NAME_SHOWN else f"{name[:100]}...{name[-100:]}"
        if path not in after:
            found.append(f"{name!r}: gone (was a {before[path].kind})")
        elif path not in before:
            found.append(f"{name!r}: new {after[path].kind}")
        else:
            for field, old, new in zip(Entry._fields, before[path], after[path], strict=True):
                if old != new:
                    found.append(f"{name!r}: {field} {_show(field, old)} -> {_show(field, new)}")
    return found


def _show(field: str, value: object) -> str:
    if field == "mode" and isinstance(value, int):
        return oct(value)
    return repr(value)
