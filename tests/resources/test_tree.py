"""A tree of entries as content: what is stored is what is loaded, and one change costs what lies on its way."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from takeback.errors import CorruptionError, FormatTooNew
from takeback.resources.files.entry import (
    FIFO,
    FILE,
    FOLDER,
    LINK,
    FileEntry,
    entry_of,
    join,
    split,
    version_of,
)
from takeback.resources.files.tree import deltas
from takeback.resources.files.tree import tree as trees
from takeback.resources.files.tree.deltas import Deltas
from takeback.resources.files.tree.tree import TreeFolder, TreeRow

Model = dict[bytes, FileEntry]
"""A tree as plain paths."""


class Shelf:
    """Content by its digest, and how often something new was put there."""

    def __init__(self) -> None:
        self.held: dict[bytes, bytes] = {}
        self.new: list[bytes] = []

    def put(self, data: bytes) -> bytes:
        name = blake3(data).digest()
        if name not in self.held:
            self.new.append(data)
        self.held[name] = data
        return name

    def get(self, name: bytes) -> bytes:
        return self.held[name]


def file(content: bytes = b"x" * 32, **fields: int) -> FileEntry:
    return msgspec.structs.replace(FileEntry(FILE, 0o644, 0, 0, 1, 1, content), **fields)


def folder(mode: int = 0o755) -> FileEntry:
    return FileEntry(FOLDER, mode, 0, 0, 1, 0)


def build(model: Model) -> TreeFolder:
    root = TreeFolder(model[b""], None)
    for path, entry in sorted(model.items()):
        if not path:
            continue
        above, _, name = path.rpartition(b"/")
        parent = root.find(above)
        assert parent is not None
        if entry.kind == FOLDER:
            parent.folders[name] = TreeFolder(entry, None)
        else:
            parent.files[name] = TreeRow(entry, None)
    return root


def flat(root: TreeFolder) -> Model:
    found = {}
    for path, here in root.walk():
        found[path] = msgspec.structs.replace(here.entry, content=b"")
        found.update({join(path, name): row.entry for name, row in here.files.items()})
    return found


class Whole:
    """A file's content is one blob."""

    def blobs(self, content: bytes, size: int) -> list[bytes]:
        return [content]


# Any tree

NAMES = st.binary(min_size=1, max_size=3).filter(lambda name: b"/" not in name and b"\0" not in name)
XATTRS = st.lists(st.tuples(st.binary(min_size=1, max_size=3), st.binary(max_size=3)), max_size=2).map(tuple)
NUMBERS = st.integers(0, 2**32)


@st.composite
def leaves(draw: st.DrawFn) -> FileEntry:
    return FileEntry(
        draw(st.sampled_from([FILE, LINK, FIFO])),
        draw(st.integers(0, 0o7777)),
        draw(NUMBERS),
        draw(NUMBERS),
        draw(st.integers(-(2**62), 2**62)),
        draw(NUMBERS),
        draw(st.binary(max_size=40)),
        draw(XATTRS),
        draw(st.binary(max_size=3)),
        draw(st.booleans()),
    )


@st.composite
def models(draw: st.DrawFn) -> Model:
    model: Model = {b"": folder(draw(st.integers(0, 0o7777)))}
    folders = [b""]
    for _ in range(draw(st.integers(0, 12))):
        path = join(draw(st.sampled_from(folders)), draw(NAMES))
        if path in model:
            continue
        if draw(st.booleans()):
            model[path] = folder(draw(st.integers(0, 0o7777)))
            folders.append(path)
        else:
            model[path] = draw(leaves())
    return model


@given(models())
def test_what_is_stored_is_what_is_loaded(model: Model) -> None:
    shelf = Shelf()
    name = trees.store(build(model), shelf.put)
    loaded = trees.load(name, shelf.get)
    assert flat(loaded) == model
    for path, entry in model.items():
        found = deltas.lookup(name, path, shelf.get)
        assert found is not None
        assert trees.same(found, entry) and (entry.kind == FOLDER or found == entry)
    assert deltas.lookup(name, b"no/such/path", shelf.get) is None
    # Storing it again gives the same name and stores nothing.
    shelf.new.clear()
    assert trees.store(loaded, shelf.put) == trees.store(build(model), shelf.put) == name
    assert shelf.new == []


@given(models(), models())
def test_a_diff_is_every_path_that_differs_and_no_other(before: Model, after: Model) -> None:
    shelf = Shelf()
    start, end = (trees.store(build(model), shelf.put) for model in (before, after))
    told = {path: (old, new) for path, old, new in deltas.diff(start, end, shelf.get)}
    expected = {p for p in before.keys() | after.keys() if before.get(p) != after.get(p)}
    assert told.keys() == expected
    for path, (old, new) in told.items():
        assert trees.same(old, before.get(path)) and trees.same(new, after.get(path))


@given(leaves())
def test_an_entry_survives_the_journal(entry: FileEntry) -> None:
    version = version_of(entry)
    data = msgspec.json.decode(msgspec.json.encode(version), type=type(version))
    assert entry_of(data) == entry


def test_every_blob_of_a_tree_is_reached() -> None:
    shelf = Shelf()
    model = {b"": folder(), b"d": folder(), **{b"d/%d" % n: file(b"%032d" % n) for n in range(900)}}
    name = trees.store(build(model), shelf.put)
    live = deltas.reach([name], shelf.get, Whole())  # type: ignore[arg-type]
    assert live == shelf.held.keys() | {b"%032d" % n for n in range(900)}


# Large folders


def numbered(count: int) -> Model:
    return {b"": folder(), b"big": folder(), **{b"big/file-%06d" % n: file() for n in range(count)}}


CHANGES: dict[str, Callable[[TreeFolder], object]] = {
    "changed": lambda big: big.files.update({b"file-010000": TreeRow(file(b"y" * 32), None)}),
    "added": lambda big: big.files.update({b"file-010000x": TreeRow(file(), None)}),
    "added in front": lambda big: big.files.update({b"a": TreeRow(file(), None)}),
    "removed": lambda big: big.files.pop(b"file-010000"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_one_change_in_a_huge_folder_costs_one_piece(what: str) -> None:
    shelf = Shelf()
    root = build(numbered(20_000))
    before = trees.store(root, shelf.put)
    whole = sum(map(len, shelf.new))
    shelf.new.clear()
    CHANGES[what](root.dirty(b"big"))
    after = trees.store(root, shelf.put)
    # One piece, the list of pieces, the root, the top. A name that is itself a cut joins or parts two pieces.
    assert len(shelf.new) <= 5
    assert sum(map(len, shelf.new)) < whole / 20
    differing = [path for path, _, _ in deltas.diff(before, after, shelf.get)]
    assert len(differing) == 1


def test_a_folder_that_grows_and_shrinks_over_the_limit_reads_the_same() -> None:
    for count in (2 * trees.PIECE_ENTRIES - 1, 2 * trees.PIECE_ENTRIES, 2 * trees.PIECE_ENTRIES + 1):
        shelf = Shelf()
        model = numbered(count)
        assert flat(trees.load(trees.store(build(model), shelf.put), shelf.get)) == model


@pytest.mark.parametrize("data", [b"", b"\x92", b"\x92\x00", b"\x92\x01\xc0", b"\x93\x00\x90", b"junk"])
def test_a_damaged_node_is_named(data: bytes) -> None:
    shelf = Shelf()
    with pytest.raises(CorruptionError, match="b3:"):
        trees.read_node(shelf.put(data), shelf.get)


# States as deltas


def touched(before: Model, after: Model) -> dict[bytes, FileEntry | None]:
    return {path: before.get(path) for path in before.keys() | after.keys()}


def steps(models: list[Model], shelf: Shelf) -> list[bytes]:
    """The names of these trees, each stored as it followed the one before."""
    states, last = Deltas(), models[0]
    names = []
    for model in models:
        names.append(states.store(build(model), touched(last, model), shelf.put))
        last = model
    return names


@given(st.lists(models(), min_size=2, max_size=6), st.sampled_from([0, 10, 100]))
def test_a_state_is_the_same_tree_whether_stored_whole_or_not(some: list[Model], most: int) -> None:
    shelf = Shelf()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deltas, "ENTRIES_MAX", most)
        names = steps(some, shelf)
    for name, model in zip(names, some, strict=True):
        for path in {path for other in some for path in other}:
            assert trees.same(deltas.lookup(name, path, shelf.get), model.get(path))
            inside = {split(below)[1] for below in model if below and split(below)[0] == path}
            assert deltas.StoredTree(name, shelf.get).folder(path).keys() == inside
    for start, before in zip(names, some, strict=True):
        for end, after in zip(names, some, strict=True):
            told = {path: (old, new) for path, old, new in deltas.diff(start, end, shelf.get)}
            assert told.keys() == {p for p in before.keys() | after.keys() if before.get(p) != after.get(p)}
            for path, (old, new) in told.items():
                assert trees.same(old, before.get(path)) and trees.same(new, after.get(path))


@given(st.lists(models(), min_size=2, max_size=5), st.sampled_from([0, 10, 100]), st.data())
def test_what_some_states_need_is_kept_and_no_other_content(
    some: list[Model], most: int, data: st.DataObject
) -> None:
    shelf = Shelf()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deltas, "ENTRIES_MAX", most)
        names = steps(some, shelf)
    kept = data.draw(st.lists(st.sampled_from(range(len(some))), min_size=1, unique=True))
    live = deltas.reach([names[n] for n in kept], shelf.get, Whole())  # type: ignore[arg-type]
    contents = {entry.content for n in kept for entry in some[n].values() if entry.kind == FILE}
    assert contents <= live
    assert live - contents <= shelf.held.keys()
    # With nothing else on the shelf, each of them is still whole.
    left = Shelf()
    left.held = {name: shelf.held[name] for name in live & shelf.held.keys()}
    for n in kept:
        for path in {path for other in some for path in other}:
            assert trees.same(deltas.lookup(names[n], path, left.get), some[n].get(path))
        for m in kept:
            list(deltas.diff(names[n], names[m], left.get))


def test_a_tree_that_comes_back_has_its_name_again() -> None:
    shelf = Shelf()
    first, second = numbered(100), numbered(100) | {b"big/file-000007": file(b"y" * 32)}
    names = steps([first, second, first, second], shelf)
    assert names[0] == names[2] != names[1] == names[3]
    # The second one cost a few bytes, and no node.
    assert len(shelf.new[-1]) < 200


def test_many_small_changes_are_folded_into_a_whole_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deltas, "ENTRIES_MAX", 50)
    shelf, model, some = Shelf(), numbered(100), []
    for n in range(40):
        model = model | {b"big/file-%06d" % n: file(b"%032d" % n)}
        some.append(model)
    names = steps(some, shelf)
    sizes = [len(deltas.StoredTree(name, shelf.get).changed) for name in names]
    assert max(sizes) < 10 and sizes.count(0) == 4
    assert flat(trees.load(names[len(sizes) - 1 - sizes[::-1].index(0)], shelf.get)).keys() == model.keys()


@pytest.mark.parametrize("data", [b"\x93\x02", b"\x93\x02\xc0\x80", b"\x92\x02\xc4\x00"])
def test_a_damaged_delta_is_named(data: bytes) -> None:
    shelf = Shelf()
    with pytest.raises(CorruptionError, match="b3:"):
        deltas.StoredTree(shelf.put(data), shelf.get)


def test_a_kind_of_node_from_the_future_is_refused() -> None:
    shelf = Shelf()
    for read in (trees.read_node, deltas.StoredTree):
        with pytest.raises(FormatTooNew, match="has format 3"):
            read(shelf.put(b"\x92\x03\x90"), shelf.get)
