"""Finding what changed by checking every known path again.

Only times and sizes are compared here; capture.py reads what differs. For a large tree, a second process checks
half of it: it shares the memory of this one, and sends back only what differs.
"""

from __future__ import annotations

import os
from collections import defaultdict
from functools import partial
from pathlib import Path

from takeback.resources.files.entry import StatKey, split
from takeback.resources.files.tree.tree import TreeFolder
from takeback.system import overlay, second_process
from takeback.system.beneath import RootFolder

Dirty = dict[bytes, set[bytes]]
"""For each folder, the names in it that must be looked at again. The empty name is the folder itself."""

PARALLEL_FILES_MIN = 4_000
_FOLDER_COST = 5
"""A folder must be opened, which takes as long as checking this many files."""

stats_taken = 0
"""The number of paths checked so far, for tests that count."""


Folders = list[tuple[bytes, TreeFolder]]


def scan(place: RootFolder, root: TreeFolder) -> Dirty:
    """Return every name in the tree that is not as it was when it was read."""
    mine, theirs = second_process.halves(root.walk(), lambda pair: len(pair[1].files) + _FOLDER_COST)
    if sum(len(folder.files) for _, folder in theirs) < PARALLEL_FILES_MIN or not second_process.possible():
        return look(place, mine + theirs)
    dirty, more = second_process.both(partial(look, place), mine, theirs, Dirty)
    for path, names in more.items():
        dirty.setdefault(path, set()).update(names)
    return dirty


def scan_below(place: RootFolder, path: bytes, folder: TreeFolder) -> Dirty:
    """Return the same for one folder and all below it."""
    return look(place, list(folder.walk(path)))


def look(place: RootFolder, folders: Folders) -> Dirty:
    """Return what differs in each of these folders."""
    dirty: Dirty = defaultdict(set)
    with place.batch() as opened:
        for path, folder in folders:
            try:
                fd = opened(path)
            except OSError:
                # It can no longer be opened: the folder above must be looked at.
                above, name = split(path)
                dirty[above].add(name)
                continue
            _compare(path, folder, fd, dirty)
    return dirty


def _compare(path: bytes, folder: TreeFolder, fd: int, dirty: Dirty) -> None:
    global stats_taken
    stat = os.stat
    names: list[bytes] = []
    if not _unchanged(folder.key, os.fstat(fd)):
        names.append(b"")
        names.extend(_listed(folder, fd))
    for name, row in folder.files.items():
        key = row.key
        try:
            found = stat(name, dir_fd=fd, follow_symlinks=False)
        except OSError:
            names.append(name)
            continue
        if (
            row.racy
            or key is None
            or found.st_ctime_ns != key.ctime_ns
            or found.st_mtime_ns != key.mtime_ns
            or found.st_size != key.size
            or found.st_ino != key.ino
            or found.st_mode != key.mode
            or found.st_dev != key.dev
        ):
            names.append(name)
    stats_taken += len(folder.files) + 1
    if names:
        dirty[path].update(names)


def _listed(folder: TreeFolder, fd: int) -> set[bytes]:
    """Return names that appeared or disappeared."""
    return folder.names() ^ {os.fsencode(name) for name in os.listdir(fd)}


def _unchanged(key: StatKey | None, found: os.stat_result) -> bool:
    return (
        key is not None
        and found.st_ctime_ns == key.ctime_ns
        and found.st_mtime_ns == key.mtime_ns
        and found.st_ino == key.ino
        and found.st_mode == key.mode
        and found.st_dev == key.dev
    )


def touched(upper: Path, place: RootFolder, known: TreeFolder) -> Dirty:
    """Return the names that were written or deleted in a view, whether or not they differ from what is known.

    The upper layer of a view has all of them, so that this costs what was changed there. What others change below the
    view meanwhile is not in it.
    """
    dirty: Dirty = {}
    with place.batch() as opened:
        for found in overlay.walk(os.fsencode(upper)):
            names = dirty.setdefault(found.path, set())
            names |= {b"", *found.there, *found.gone}
            folder = known.find(found.path)
            if folder is None:
                continue  # new: the look at its name enters it
            try:
                listed = {os.fsencode(name) for name in os.listdir(opened(found.path))}
            except OSError:
                continue
            # Made in the view and deleted again, so that the layer has no trace of it.
            names |= folder.names() - listed
    return dirty
