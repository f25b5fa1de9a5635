"""Finding what changed by looking at every known path again.

Only times and sizes are compared here; what differs is read by capture.py. Where the tree is large, a second
process looks at half of it: it shares the memory of this one, and sends back only what differs.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial

from takeback import forked
from takeback.resources.files.entry import Key, join
from takeback.resources.files.place import FOLDER_FLAGS, OPEN_DEPTH_MAX, Place
from takeback.resources.files.tree import Folder

Dirty = dict[bytes, set[bytes]]
"""For each folder, the names in it that must be looked at again. The empty name is the folder itself."""

PARALLEL_FILES_MIN = 8_000
stats_taken = 0
"""How many paths were looked at so far, for tests that count."""


def scan(place: Place, root: Folder) -> Dirty:
    """Every name in the tree that is not as it was when it was read."""
    shares = _shares(root)
    if len(shares) == 1:
        return _look(place, shares[0])
    mine, theirs = forked.both(partial(_look, place), shares[0], shares[1], Dirty)
    for path, names in theirs.items():
        mine.setdefault(path, set()).update(names)
    return mine


Share = list[tuple[bytes, Folder, bool]]
"""Folders to look at, and whether also at everything below."""


def _shares(root: Folder) -> list[Share]:
    whole: Share = [(b"", root, True)]
    if not forked.possible():
        return [whole]
    sizes = {name: _size(folder) for name, folder in root.folders.items()}
    total = sum(sizes.values())
    if total < PARALLEL_FILES_MIN:
        return [whole]
    return _split([(b"", root)], total)


def _split(start: list[tuple[bytes, Folder]], total: int) -> list[Share]:
    """Two shares of about the same size: open the largest folder until it fits."""
    alone: Share = []
    parts = [(_size(folder), path, folder) for path, folder in start]
    while parts and max(part[0] for part in parts) > total // 4:
        part = max(parts, key=lambda part: part[0])
        if not part[2].folders:
            break
        parts.remove(part)
        _, path, folder = part
        alone.append((path, folder, False))
        parts += [(_size(below), join(path, name), below) for name, below in folder.folders.items()]
    shares: list[Share] = [alone, []]
    loads = [0, 0]
    for size, path, folder in sorted(parts, key=lambda part: part[0], reverse=True):
        lighter = loads.index(min(loads))
        loads[lighter] += size
        shares[lighter].append((path, folder, True))
    return shares


def _size(folder: Folder) -> int:
    return sum(len(below.files) + 2 for _, below in folder.walk())


def _look(place: Place, share: Iterable[tuple[bytes, Folder, bool]]) -> Dirty:
    dirty: Dirty = defaultdict(set)
    for path, folder, deep in share:
        try:
            fd = place.open(path)
        except OSError:
            _blame(dirty, path)
            continue
        for here, below, below_fd in _descend(place, path, folder, fd, dirty, deep=deep):
            _compare(here, below, below_fd, dirty)
    return dirty


def _blame(dirty: Dirty, path: bytes) -> None:
    """The folder itself cannot be opened any more: the one above it has to be looked at."""
    above, _, name = path.rpartition(b"/")
    dirty[above].add(name)


def _descend(
    place: Place, path: bytes, folder: Folder, fd: int, dirty: Dirty, *, deep: bool
) -> Iterator[tuple[bytes, Folder, int]]:
    """This folder and those below, each with an open descriptor that is closed afterwards."""
    frames = [(path, folder, fd, iter(folder.folders.items() if deep else ()))]
    try:
        yield path, folder, fd
        while frames:
            here, _, here_fd, below = frames[-1]
            found = next(below, None)
            if found is None:
                frames.pop()
                if here_fd >= 0:
                    os.close(here_fd)
                continue
            name, inner = found
            inner_path = join(here, name)
            try:
                if here_fd >= 0:
                    inner_fd = os.open(name, FOLDER_FLAGS, dir_fd=here_fd)
                else:
                    inner_fd = place.open(inner_path)
            except OSError:
                dirty[here].add(name)
                continue
            yield inner_path, inner, inner_fd
            if len(frames) >= OPEN_DEPTH_MAX:
                # Deep trees must not use up all descriptors: these are opened again by path.
                os.close(inner_fd)
                inner_fd = -1
            frames.append((inner_path, inner, inner_fd, iter(inner.folders.items())))
    finally:
        for frame in frames:
            if frame[2] >= 0:
                os.close(frame[2])


def _compare(path: bytes, folder: Folder, fd: int, dirty: Dirty) -> None:
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


def _listed(folder: Folder, fd: int) -> set[bytes]:
    """Names that came or went."""
    return folder.names() ^ {os.fsencode(name) for name in os.listdir(fd)}


def _unchanged(key: Key | None, found: os.stat_result) -> bool:
    return (
        key is not None
        and found.st_ctime_ns == key.ctime_ns
        and found.st_mtime_ns == key.mtime_ns
        and found.st_ino == key.ino
        and found.st_mode == key.mode
        and found.st_dev == key.dev
    )
