"""A tree of entries, in memory and as content.

Each folder is a node: the list of its entries, sorted by name, stored under the digest of its bytes. A folder's
entry in its parent holds that digest, so the digest of the top node names the whole tree, two trees differ only
where digests differ, and one changed file costs the nodes on its way to the top. The node of a large folder is
split into pieces at names chosen by their hash; one change then costs one piece and the list of pieces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from zlib import crc32

import msgspec

from takeback.errors import ContentGone, CorruptionError, FormatTooNew
from takeback.ports.content import Contents
from takeback.resources.files.entry import FILE, FOLDER, FileEntry, StatKey, join

Get = Callable[[bytes], bytes]
Put = Callable[[bytes], bytes]

PIECE_ENTRIES = 256
_LEAF, _FAN, DELTA = 0, 1, 2
_CUT = re.compile(b"/")
_KIND_MAX = 15
"""Kinds that may come; another byte there is damage."""


class TreeRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A path that is not a folder: what it was, and the key under which that was read.

    A racy one was written so shortly before it was read that a later write could have left the same times; it is
    read again next time.
    """

    entry: FileEntry
    key: StatKey | None
    racy: bool = False


class TreeFolder(msgspec.Struct, array_like=True):
    """A folder and all below it. `node` is the digest of its own node, or empty if it is outdated."""

    entry: FileEntry
    key: StatKey | None
    files: dict[bytes, TreeRow] = {}
    folders: dict[bytes, "TreeFolder"] = {}  # noqa: UP037  msgspec resolves the name later
    node: bytes = b""

    def names(self) -> set[bytes]:
        return self.files.keys() | self.folders.keys()

    def find(self, path: bytes) -> TreeFolder | None:
        """Return the folder at this path below, if it is one."""
        folder = self
        try:
            for name in path.split(b"/") if path else ():
                folder = folder.folders[name]
        except KeyError:
            return None
        return folder

    def dirty(self, path: bytes) -> TreeFolder:
        """Return the folder at this path, marking every node on the way as outdated."""
        folder = self
        folder.node = b""
        for name in path.split(b"/") if path else ():
            folder = folder.folders[name]
            folder.node = b""
        return folder

    def walk(self, path: bytes = b"") -> Iterator[tuple[bytes, TreeFolder]]:
        """Yield this folder and every one below it."""
        pending = [(path, self)]
        while pending:
            here, folder = pending.pop()
            yield here, folder
            pending.extend((join(here, name), below) for name, below in folder.folders.items())


def entry_in(root: TreeFolder, path: bytes) -> FileEntry | None:
    """Return the entry of one path in a tree."""
    if not path:
        return root.entry
    above, _, name = path.rpartition(b"/")
    folder = root.find(above)
    if folder is None:
        return None
    if name in folder.folders:
        return folder.folders[name].entry
    return folder.files[name].entry if name in folder.files else None


_encode = msgspec.msgpack.Encoder().encode
_leaf = msgspec.msgpack.Decoder(tuple[int, list[tuple[bytes, FileEntry]]]).decode
_fan = msgspec.msgpack.Decoder(tuple[int, list[tuple[bytes, bytes]]]).decode


def store(root: TreeFolder, put: Put) -> bytes:
    """Store a tree, and return its name."""
    return put_top(store_nodes(root, put), put)


def store_nodes(root: TreeFolder, put: Put) -> FileEntry:
    """Store every node that changed, deepest first, and return the entry of the root."""
    changed = [folder for _, folder in _stale(root)]
    for folder in reversed(changed):
        folder.node = _store_node(folder, put)
    return msgspec.structs.replace(root.entry, content=root.node)


def put_top(top: FileEntry, put: Put) -> bytes:
    """Store the node that names a whole tree: the root is its only entry."""
    return put(_encode((_LEAF, [(b"", top)])))


def _stale(root: TreeFolder) -> Iterator[tuple[bytes, TreeFolder]]:
    """Yield folders whose node is outdated, each before those below it."""
    pending = [(b"", root)]
    while pending:
        path, folder = pending.pop()
        if not folder.node:
            yield path, folder
            pending.extend((name, below) for name, below in folder.folders.items() if not below.node)


def _store_node(folder: TreeFolder, put: Put) -> bytes:
    items = [(name, row.entry) for name, row in folder.files.items()]
    items += [
        (name, msgspec.structs.replace(below.entry, content=below.node))
        for name, below in folder.folders.items()
    ]
    items.sort()  # by name: no two are the same
    if len(items) <= 2 * PIECE_ENTRIES:
        return put(_encode((_LEAF, items)))
    pieces = [(piece[0][0], put(_encode((_LEAF, piece)))) for piece in _pieces(items)]
    return put(_encode((_FAN, pieces)))


def _pieces(items: list[tuple[bytes, FileEntry]]) -> Iterator[list[tuple[bytes, FileEntry]]]:
    """Split at names chosen by their hash: adding or removing a name moves no other cut."""
    start = 0
    for index, (name, _) in enumerate(items):
        if index > start and crc32(name) % PIECE_ENTRIES == 0:
            yield items[start:index]
            start = index
    yield items[start:]


def kind_of_node(data: bytes) -> int:
    """Return what stored bytes are. Raise FormatTooNew for what this version would misread."""
    # The first byte is the array's head, the second says which kind of node it is.
    kind = data[1] if len(data) > 1 else _LEAF
    if DELTA < kind <= _KIND_MAX:
        raise FormatTooNew(
            f"a stored tree has format {kind}; this Takeback reads up to {DELTA}",
            hint="use the newer Takeback that wrote it; nothing was changed",
        )
    return kind


def read_node(name: bytes, get: Get) -> dict[bytes, FileEntry]:
    """Return the entries of one stored folder."""
    return _open_node(name, get)[1]


def _open_node(name: bytes, get: Get) -> tuple[list[bytes], dict[bytes, FileEntry]]:
    """Return the pieces and the entries of one stored folder."""
    data = get(name)
    try:
        if kind_of_node(data) == _LEAF:
            return [], dict(_leaf(data)[1])
        pieces = [piece for _, piece in _fan(data)[1]]
        return pieces, {key: entry for piece in pieces for key, entry in _leaf(get(piece))[1]}
    except msgspec.DecodeError as error:
        raise CorruptionError(f"the stored folder b3:{name.hex()} cannot be read: {error}") from error


def top_entry(tree: bytes, get: Get) -> FileEntry:
    return read_node(tree, get)[b""]


def load(tree: bytes, get: Get) -> TreeFolder:
    """Return a whole stored tree without keys: every file will be looked at again."""
    root = TreeFolder(top_entry(tree, get), None)
    pending = [root]
    while pending:
        folder = pending.pop()
        folder.node = folder.entry.content
        for name, entry in read_node(folder.node, get).items():
            if entry.kind == FOLDER:
                folder.folders[name] = TreeFolder(entry, None)
                pending.append(folder.folders[name])
            else:
                folder.files[name] = TreeRow(entry, None)
    return root


def lookup(top: FileEntry, path: bytes, get: Get) -> FileEntry | None:
    """Return one path of a stored tree, given by the entry of its root."""
    entry: FileEntry | None = top
    for name in path.split(b"/") if path else ():
        if entry is None or entry.kind != FOLDER:
            return None
        entry = read_node(entry.content, get).get(name)
    return entry


Difference = tuple[bytes, FileEntry | None, FileEntry | None]


def diff(before: FileEntry, after: FileEntry, get: Get) -> Iterator[Difference]:
    """Yield every path that differs between two stored trees, given by their roots, with its entry in each."""
    pending: list[Difference] = [(b"", before, after)]
    while pending:
        path, old, new = pending.pop()
        if not same(old, new):
            yield path, old, new
        old_node = old.content if old is not None and old.kind == FOLDER else b""
        new_node = new.content if new is not None and new.kind == FOLDER else b""
        if old_node == new_node:
            continue
        was = read_node(old_node, get) if old_node else {}
        now = read_node(new_node, get) if new_node else {}
        pending.extend(
            (join(path, name), was.get(name), now.get(name))
            for name in was.keys() | now.keys()
            if was.get(name) != now.get(name)
        )


def same(old: FileEntry | None, new: FileEntry | None) -> bool:
    if old is None or new is None:
        return old is new
    if old.kind == FOLDER == new.kind:
        return msgspec.structs.replace(old, content=b"") == msgspec.structs.replace(new, content=b"")
    return old == new


def files(node: bytes, get: Get, seen: set[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, FileEntry]]:
    """Yield every path below a stored folder that is not a folder. A folder in `seen` is not followed again."""
    pending = [(b"", node)]
    while pending:
        path, name = pending.pop()
        if (path, name) in seen:
            continue
        seen.add((path, name))
        entries: dict[bytes, FileEntry] = {}
        with suppress(ContentGone):  # an interrupted clean-up has removed it
            entries = read_node(name, get)
        for child, entry in entries.items():
            if entry.kind == FOLDER:
                pending.append((join(path, child), entry.content))
            else:
                yield join(path, child), entry


def reach(
    node: bytes, get: Get, contents: Contents, live: set[bytes], gone: AbstractSet[bytes] = frozenset()
) -> None:
    """Add every blob that a stored folder needs, without the content `gone`.

    What is already in `live` has been followed.
    """
    pending = [node]
    while pending:
        name = pending.pop()
        if name in live:
            continue
        live.add(name)
        pieces, entries = _open_node(name, get)
        live.update(pieces)
        for entry in entries.values():
            if entry.kind == FOLDER:
                pending.append(entry.content)
            else:
                reach_content(entry, contents, live, gone)


def reach_around(
    node: bytes,
    left_out: AbstractSet[bytes],
    get: Get,
    contents: Contents,
    live: set[bytes],
    gone: AbstractSet[bytes],
) -> set[bytes]:
    """Do the same as `reach`, without the content of some paths. Return the nodes that were not followed in full."""
    above = {path[: cut.start()] for path in left_out for cut in _CUT.finditer(path)} | {b""}
    nodes: set[bytes] = set()
    pending = [(b"", node)]
    while pending:
        path, name = pending.pop()
        if path not in above:
            reach(name, get, contents, live, gone)
            continue
        pieces, entries = _open_node(name, get)
        nodes.update(pieces, (name,))
        for child, entry in entries.items():
            if entry.kind == FOLDER:
                pending.append((join(path, child), entry.content))
            elif join(path, child) not in left_out:
                reach_content(entry, contents, live, gone)
    return nodes


def reach_content(
    entry: FileEntry | None, contents: Contents, live: set[bytes], gone: AbstractSet[bytes] = frozenset()
) -> None:
    if entry is None or entry.kind != FILE or entry.content in gone:
        return
    if entry.content[:32] not in live:
        live.update(contents.blobs(entry.content, entry.size))
