"""Writing databases of the past below another root: into a view, where nobody else has them open."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from takeback.core.change import Change, Version
from takeback.core.codec import path_of
from takeback.errors import ConflictError
from takeback.ports.content import Contents
from takeback.resources.sqlite import attributes
from takeback.resources.sqlite.image import SUFFIXES, dress, kept_of
from takeback.system.beneath import RootFolder


def write(path: bytes, version: Version, contents: Contents) -> None:
    """Fill an empty file with a version of a database, as SQLite leaves it when the last program closes it."""
    kept = kept_of(version)
    if kept is None:
        raise ConflictError("this version of the database could not be captured; nothing was written")
    fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        contents.write(bytes.fromhex(kept.content), kept.size, fd, sparse=False)
        if not kept.raw:
            dress(fd, wal=kept.wal, left_out=bytes.fromhex(kept.header))
    finally:
        os.close(fd)


def fill(root: Path, changes: Iterable[Change], contents: Contents) -> None:
    """Make these changes below a root."""
    place = RootFolder(root)
    try:
        for change in changes:
            _put(place, path_of(change.target.name), change.after, contents)
    finally:
        place.close()


def _put(place: RootFolder, path: bytes, version: Version, contents: Contents) -> None:
    above, _, name = path.rpartition(b"/")
    with place.folder(above) as folder:
        for one in (name, *(name + suffix for suffix in SUFFIXES)):
            with suppress(FileNotFoundError):
                os.unlink(one, dir_fd=folder)
        kept = kept_of(version)
        if not version or kept is None:
            return  # it did not exist, or could not be captured: then it is missing
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder))
        own = f"/proc/self/fd/{folder}/{os.fsdecode(name)}"
        write(os.fsencode(own), version, contents)
        attributes.write(own, kept.attributes)
        os.chmod(name, kept.mode, dir_fd=folder)
        os.utime(name, ns=(int(version.stamp), int(version.stamp)), dir_fd=folder, follow_symlinks=False)
