"""Reading every file again and comparing it with its recorded content, whatever its times say."""

from __future__ import annotations

import os
from collections.abc import Iterator

from takeback.ports.content import Contents
from takeback.ports.progress import Progress, silent
from takeback.resources.files.entry import FILE, join, key_of
from takeback.resources.files.tree.tree import TreeFolder, TreeRow
from takeback.system import second_process
from takeback.system.beneath import FILE_FLAGS, OpenFolders, RootFolder

PARALLEL_BYTES_MIN = 16 << 20
_FILE_BYTES = 20_000
"""The bytes that can be hashed in the time that it takes to open a file."""

Folders = list[tuple[bytes, TreeFolder]]


def unlike(place: RootFolder, root: TreeFolder, contents: Contents, progress: Progress) -> list[bytes]:
    """Return the paths whose bytes are not those recorded, although nothing shows that they changed."""
    mine, theirs = second_process.halves(root.walk(), _weight)
    if sum(map(_weight, theirs)) < PARALLEL_BYTES_MIN or not second_process.possible():
        return _unlike(place, mine + theirs, contents, progress)

    def look(share: Folders) -> list[bytes]:
        return _unlike(place, share, contents, progress if share is mine else silent)

    first, second = second_process.both(look, mine, theirs, list[bytes])
    return first + second


def _weight(pair: tuple[bytes, TreeFolder]) -> int:
    return sum(row.entry.size + _FILE_BYTES for row in pair[1].files.values())


def _unlike(place: RootFolder, folders: Folders, contents: Contents, progress: Progress) -> list[bytes]:
    with place.batch() as opened:
        total = sum(len(folder.files) for _, folder in folders)
        files = progress("Reading files", _files(folders), total)
        return [
            join(path, name) for path, name, row in files if not _is_like(path, name, row, contents, opened)
        ]


def _files(folders: Folders) -> Iterator[tuple[bytes, bytes, TreeRow]]:
    for path, folder in folders:
        for name, row in folder.files.items():
            if row.entry.kind == FILE:
                yield path, name, row


def _is_like(path: bytes, name: bytes, row: TreeRow, contents: Contents, opened: OpenFolders) -> bool:
    try:
        fd = os.open(name, FILE_FLAGS, dir_fd=opened(path))
    except OSError:
        # Gone or closed to us since the look: that is drift, not silent corruption.
        return True
    try:
        found = os.fstat(fd)
        return contents.name(fd, found.st_size) == row.entry.content or key_of(found) != row.key
    finally:
        os.close(fd)
