"""Changing a tree in memory, and remembering what was there before.

So the changes since the last mark are known at once, without comparing two trees.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from takeback.resources.files.entry import FileEntry, StatKey, join, split
from takeback.resources.files.tree.deltas import Before
from takeback.resources.files.tree.tree import Difference, TreeFolder, TreeRow, entry_in, same


class Edits:
    """All changes to a tree."""

    def __init__(self, root: TreeFolder, before: Before) -> None:
        self.root = root
        self.before = before
        self.linked: set[bytes] = set()

    def put_file(self, folder: TreeFolder, path: bytes, row: TreeRow) -> None:
        name = split(path)[1]
        if name in folder.folders:
            self.drop(folder, path)
        old = folder.files.get(name)
        if old is None or old.entry != row.entry:
            self.before.setdefault(path, old.entry if old else None)
            self._stale(folder, path)
        folder.files[name] = row
        if row.key and row.key.nlink > 1:
            self.linked.add(path)

    def put_folder(self, folder: TreeFolder, path: bytes, new: TreeFolder) -> None:
        """Add a folder that was unknown; whatever had its name is gone."""
        self.drop(folder, path)
        self.before.setdefault(path, None)
        self._stale(folder, path)
        folder.folders[split(path)[1]] = new

    def describe(self, folder: TreeFolder, path: bytes, entry: FileEntry, key: StatKey | None) -> None:
        """Set the folder's own mode, owner, times and attributes."""
        if entry != folder.entry:
            self.before.setdefault(path, folder.entry)
            # A folder's own entry is in the node of the folder above it.
            self.root.dirty(split(path)[0])
        folder.entry, folder.key = entry, key

    def drop(self, folder: TreeFolder, path: bytes) -> None:
        """Remove this path, and everything below it."""
        name = split(path)[1]
        if name in folder.files or name in folder.folders:
            self._stale(folder, path)
        if row := folder.files.pop(name, None):
            self.before.setdefault(path, row.entry)
        if below := folder.folders.pop(name, None):
            for here, inner in below.walk(path):
                self.before.setdefault(here, inner.entry)
                for child, child_row in inner.files.items():
                    self.before.setdefault(join(here, child), child_row.entry)

    def _stale(self, folder: TreeFolder, path: bytes) -> None:
        """Mark the node of this folder, which contains `path`, and those above it as outdated."""
        if folder.node:
            # Above an outdated node there are only outdated ones.
            self.root.dirty(split(path)[0])

    def group_links(self, linked: Iterable[bytes]) -> set[bytes]:
        """Give paths that are one file the same group. Return the paths that have other names."""
        members: dict[tuple[int, int], list[bytes]] = {}
        for path, row in self._rows(linked):
            if row.key and row.key.nlink > 1:
                members.setdefault((row.key.dev, row.key.ino), []).append(path)
        groups = {path: min(paths) for paths in members.values() if len(paths) > 1 for path in paths}
        for path, row in list(self._rows(linked)):
            group = groups.get(path, b"")
            if row.entry.group != group:
                entry = msgspec.structs.replace(row.entry, group=group)
                folder = self.root.find(split(path)[0])
                assert folder is not None
                self.put_file(folder, path, msgspec.structs.replace(row, entry=entry))
        return {path for paths in members.values() for path in paths}

    def _rows(self, paths: Iterable[bytes]) -> Iterator[tuple[bytes, TreeRow]]:
        for path in paths:
            if row := row_in(self.root, path):
                yield path, row


def other_names(root: TreeFolder, paths: set[bytes]) -> dict[bytes, set[bytes]]:
    """Return known paths that have become other names of these files, by folder. A watcher does not report that."""
    rows = [row_in(root, path) for path in paths]
    wanted = {(row.key.dev, row.key.ino) for row in rows if row and row.key}
    found: dict[bytes, set[bytes]] = {}
    for path, folder in root.walk() if wanted else ():
        for name, row in folder.files.items():
            if row.key and row.key.nlink == 1 and (row.key.dev, row.key.ino) in wanted:
                found.setdefault(path, set()).add(name)
    return found


def row_in(root: TreeFolder, path: bytes) -> TreeRow | None:
    above, name = split(path)
    folder = root.find(above)
    return folder.files.get(name) if folder is not None else None


def differences(root: TreeFolder, before: Before) -> Iterator[Difference]:
    """Yield the paths that are not as they were before."""
    for path, old in before.items():
        new = entry_in(root, path)
        if not same(old, new):
            yield path, old, new


def all_linked(root: TreeFolder) -> set[bytes]:
    """Return the paths of files that have more than one name."""
    return {
        join(path, name)
        for path, folder in root.walk()
        for name, row in folder.files.items()
        if row.key and row.key.nlink > 1
    }
