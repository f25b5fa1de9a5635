"""Stored states of a tree: most as a difference from a whole one, because most checkpoints change little.

    delta = [2, entry of a whole tree's root, {path: entry or nil, …}]

sorted by path; nil says that nothing is there any more. A folder's entry stands for the folder itself and names no
node. A delta holds all that differs from its whole tree, so reading a state never follows a chain; and the same
state over the same whole tree has the same name. It needs the nodes of the whole tree, but neither its name nor the
contents that it replaces: those can be removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress

import msgspec

from takeback.errors import ContentGone, CorruptionError
from takeback.ports.content import Contents
from takeback.resources.files.entry import FOLDER, FileEntry, split
from takeback.resources.files.tree import tree as trees
from takeback.resources.files.tree.tree import DELTA, Difference, Get, Put, TreeFolder, entry_in, same

ENTRIES_MAX = 8192
"""When the deltas over one whole tree have this many entries together, the next state is stored whole."""

Before = dict[bytes, FileEntry | None]
"""For each path that was touched, what was there first."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, FileEntry, dict[bytes, FileEntry | None]]).decode


class Deltas(msgspec.Struct, array_like=True):
    """The root of the last tree that was stored whole, and what differs from it: old and new entry of each path."""

    whole: FileEntry | None = None
    changed: dict[bytes, tuple[FileEntry | None, FileEntry | None]] = {}
    written: int = 0

    def store(self, root: TreeFolder, touched: Mapping[bytes, FileEntry | None], put: Put) -> bytes:
        """Store a tree, and return the name of this state. `touched` is what was there at the last call."""
        if self.whole is not None:
            self._take(root, touched)
        if self.whole is None or self.written > ENTRIES_MAX:
            self.whole, self.changed, self.written = trees.store_nodes(root, put), {}, 0
        if not self.changed:
            return trees.put_top(self.whole, put)
        entries = {path: self.changed[path][1] for path in sorted(self.changed)}
        return put(_encode((DELTA, self.whole, entries)))

    def _take(self, root: TreeFolder, touched: Mapping[bytes, FileEntry | None]) -> None:
        for path, before in touched.items():
            old = self.changed[path][0] if path in self.changed else before
            new = entry_in(root, path)
            if same(old, new):
                self.changed.pop(path, None)
            else:
                self.changed[path] = old, new
        self.written += len(self.changed)


class StoredTree:
    """One stored state: the root of a whole tree, and what differs from it."""

    def __init__(self, name: bytes, get: Get) -> None:
        self._get = get
        self.changed: dict[bytes, FileEntry | None] = {}
        data = get(name)
        if trees.kind_of_node(data) != DELTA:
            self.whole = trees.top_entry(name, get)
            return
        try:
            _, self.whole, self.changed = _decode(data)
        except msgspec.DecodeError as error:
            raise CorruptionError(f"the stored state b3:{name.hex()} cannot be read: {error}") from error

    def entry(self, path: bytes) -> FileEntry | None:
        if path in self.changed:
            return self.changed[path]
        return trees.lookup(self.whole, path, self._get)

    def folder(self, path: bytes) -> dict[bytes, FileEntry]:
        """Return the entries of a folder."""
        then = trees.lookup(self.whole, path, self._get)
        found = trees.read_node(then.content, self._get) if then is not None and then.kind == FOLDER else {}
        for changed, entry in self.changed.items():
            above, name = split(changed)
            if changed and above == path:
                found.pop(name, None)
                if entry is not None:
                    found[name] = entry
        return found


def lookup(name: bytes, path: bytes, get: Get) -> FileEntry | None:
    """Return one path of a stored state."""
    return StoredTree(name, get).entry(path)


def diff(before: bytes, after: bytes, get: Get) -> Iterator[Difference]:
    """Yield every path that differs between two stored states, with its entry in each."""
    if before == after:
        return
    old, new = StoredTree(before, get), StoredTree(after, get)
    changed = old.changed.keys() | new.changed.keys()
    for path, was, now in trees.diff(old.whole, new.whole, get):
        if path not in changed:
            yield path, was, now
    for path in changed:
        was, now = old.entry(path), new.entry(path)
        if not same(was, now):
            yield path, was, now


def files(names: Iterable[bytes], get: Get) -> Iterator[tuple[bytes, FileEntry]]:
    """Yield what these states have at every path that is not a folder; some of it more than once."""
    replaced: dict[bytes, AbstractSet[bytes]] = {}
    for name in names:
        try:
            state = StoredTree(name, get)
        except ContentGone:
            continue
        for path, entry in state.changed.items():
            if entry is not None and entry.kind != FOLDER:
                yield path, entry
        node = state.whole.content
        replaced[node] = state.changed.keys() & replaced.get(node, state.changed.keys())
    seen: set[tuple[bytes, bytes]] = set()
    for node, paths in replaced.items():
        yield from (found for found in trees.files(node, get, seen) if found[0] not in paths)


def reach(
    names: Iterable[bytes], get: Get, contents: Contents, gone: AbstractSet[bytes] = frozenset()
) -> set[bytes]:
    """Return every blob that these states need, without the content `gone` and what all of them have replaced.

    The first state must be complete. An interrupted clean-up may have removed part of an earlier one.
    """
    live: set[bytes] = set()
    replaced: dict[bytes, AbstractSet[bytes]] = {}
    for number, name in enumerate(names):
        with suppress(*(ContentGone,) if number else ()):
            state = StoredTree(name, get)
            live.add(name)
            for entry in state.changed.values():
                trees.reach_content(entry, contents, live, gone)
            node = state.whole.content
            replaced[node] = state.changed.keys() & replaced.get(node, state.changed.keys())
    # A node that is followed only in part counts as followed only at the end: another tree may need all of it.
    nodes: set[bytes] = set()
    for number, (node, paths) in enumerate(replaced.items()):
        with suppress(*(ContentGone,) if number else ()):
            nodes |= trees.reach_around(node, paths, get, contents, live, gone)
    return live | nodes
