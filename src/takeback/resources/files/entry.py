"""What is known about one path: enough to put it back exactly."""

from __future__ import annotations

import os
import stat
from functools import lru_cache
from typing import Any

import msgspec

from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.codec import digest, path_of, text_of

FILE, FOLDER, LINK, FIFO = "f", "d", "l", "p"
SOCKET, BLOCK, CHARACTER = "s", "b", "c"
OPAQUE = "u"
"""A file that could not be read: it is known to exist, its content is not known."""

VERSIONS_KEPT = 2048
"""A look, a plan and a verification ask for the versions of the same paths one after the other."""

RESTORABLE = frozenset({FILE, FOLDER, LINK, FIFO})

_KINDS = {
    stat.S_IFREG: FILE,
    stat.S_IFDIR: FOLDER,
    stat.S_IFLNK: LINK,
    stat.S_IFIFO: FIFO,
    stat.S_IFSOCK: SOCKET,
    stat.S_IFBLK: BLOCK,
    stat.S_IFCHR: CHARACTER,
}

_KIND_BITS = 0o170000  # as stat.S_IFMT does, without a call: this is asked several times about every file

KEPT_ATTRIBUTES = (b"user.", b"system.posix_acl_", b"security.capability")
"""Attributes that are part of a version. Capabilities are among them: a mere copy of a program lacks them."""


class FileEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One path as it was.

    `content` is the name of a file's content, a link's text, or the name of a folder's node. `group` is the first
    path among hard links to the same file, if there are several inside the tree.
    """

    kind: str
    mode: int
    uid: int
    gid: int
    mtime_ns: int
    size: int
    content: bytes = b""
    xattrs: tuple[tuple[bytes, bytes], ...] = ()
    group: bytes = b""
    sparse: bool = False

    @property
    def id(self) -> str:
        """What is compared: kind, content, mode, link text, attributes. Not the times, not the owner."""
        mode = "" if self.kind == LINK else f"{self.mode:o}"
        content = "" if self.kind == FOLDER else self.content.hex()
        attributes = digest(msgspec.msgpack.encode(self.xattrs))[3:19] if self.xattrs else ""
        return f"{self.kind}:{mode}:{content}:{attributes}"

    @property
    def stamp(self) -> str:
        """What is restored with it, but is not a conflict by itself."""
        return f"{self.mtime_ns}:{self.uid}:{self.gid}:{text_of(self.group)}"


def kind_of(mode: int) -> str:
    return _KINDS.get(mode & _KIND_BITS, OPAQUE)


def version_of(entry: FileEntry | None) -> Version:
    """Return an entry as the journal stores it."""
    return ABSENT if entry is None else _version(entry)


@lru_cache(maxsize=VERSIONS_KEPT)
def _version(entry: FileEntry) -> Version:
    data: list[Any] = [entry.kind, entry.mode, entry.uid, entry.gid, entry.mtime_ns, entry.size]
    data.append("" if entry.kind == FOLDER else entry.content.hex())
    if entry.xattrs or entry.group or entry.sparse:
        data.append([[text_of(name), value.hex()] for name, value in entry.xattrs])
        data.append(text_of(entry.group))
        data.append(entry.sparse)
    return Version(entry.id, entry.stamp, data)


def entry_of(version: Version) -> FileEntry | None:
    """Return the entry that `version_of` stored."""
    if not version:
        return None
    kind, mode, uid, gid, mtime_ns, size, content, *more = version.data
    xattrs, group, sparse = more or ((), "", False)
    return FileEntry(
        kind,
        mode,
        uid,
        gid,
        mtime_ns,
        size,
        bytes.fromhex(content),
        tuple((path_of(name), bytes.fromhex(value)) for name, value in xattrs),
        path_of(group),
        sparse,
    )


def is_opaque(version: Version) -> bool:
    """Return True if something was there whose content could not be read or stored."""
    return version.id.startswith(f"{OPAQUE}:")


def target_of(path: bytes) -> Target:
    """Return the target of a path. The root itself is called `.`."""
    return Target("files", text_of(path) or ".")


def path_of_target(target: Target) -> bytes:
    path = path_of(target.name)
    return b"" if path == b"." else path


def change_of(path: bytes, before: FileEntry | None, after: FileEntry | None) -> Change:
    return Change(target_of(path), version_of(before), version_of(after))


def join(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder else name


def split(path: bytes) -> tuple[bytes, bytes]:
    """Return a path's folder and its name."""
    folder, _, name = path.rpartition(b"/")
    return folder, name


class StatKey(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What shows that a path was not touched since it was read."""

    ino: int
    size: int
    mtime_ns: int
    ctime_ns: int
    mode: int
    dev: int
    nlink: int = 1


def key_of(found: os.stat_result) -> StatKey:
    return StatKey(
        found.st_ino,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
        found.st_mode,
        found.st_dev,
        found.st_nlink,
    )


def depth(path: bytes) -> int:
    return path.count(b"/") + 1 if path else 0
