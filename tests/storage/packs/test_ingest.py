"""Files are read as one moment of theirs, by one process or by several, and one bad path stops no other."""

from __future__ import annotations

import errno
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from takeback.errors import BackendError
from takeback.storage.content import file_content
from takeback.storage.content.packs import MemoryBlobs, PackStore
from takeback.storage.content.packs.ingest import parallel
from takeback.storage.content.packs.ingest.files import ATTEMPTS_MAX, FileKey, Ingested, ingest
from takeback.storage.content.packs.ingest.parallel import ingest_many
from takeback.testing.blob_contract import name_of
from takeback.testing.crash import hooked


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    return root


@pytest.fixture
def root_fd(root: Path) -> Iterator[int]:
    fd = os.open(root, os.O_RDONLY)
    yield fd
    os.close(fd)


def plant(root: Path, files: int, seed: int = 0) -> dict[bytes, bytes]:
    """A tree of files of all sizes, some of them alike."""
    chance, tree = random.Random(seed), {}
    for n in range(files):
        path = root / f"d{n % 7}" / f"f{n}"
        path.parent.mkdir(exist_ok=True)
        data = chance.choice([b"alike", chance.randbytes(chance.randrange(3000)), b"line %d\n" % n * 50])
        path.write_bytes(data)
        tree[os.fsencode(path.relative_to(root))] = data
    (root / "large").write_bytes(chance.randbytes(5 << 20))
    tree[b"large"] = (root / "large").read_bytes()
    return tree


def test_each_file_with_its_keys_and_content(root: Path, root_fd: int) -> None:
    tree = plant(root, 50)
    blobs = MemoryBlobs()
    for got in ingest(tree, root_fd, blobs.put):
        assert got.content is not None and not got.torn and not got.errno
        assert b"".join(file_content.read(blobs.get, got.content)) == tree[got.path]
        assert got.before == got.after == FileKey.of(os.stat(got.path, dir_fd=root_fd))


def test_absolute_paths_need_no_root(root: Path) -> None:
    (root / "a").write_bytes(b"abc")
    (got,) = ingest([os.fsencode(root / "a")], None, MemoryBlobs().put)
    assert got.content is not None and got.content.name == name_of(b"abc")


def test_what_is_no_readable_file_is_told_and_stops_no_other(root: Path, root_fd: int) -> None:
    os.mkfifo(root / "fifo")
    (root / "link").symlink_to("file")
    (root / "folder").mkdir()
    (root / "file").write_bytes(b"abc")
    names = [b"fifo", b"link", b"folder", b"none", b"file"]
    got = {item.path: item for item in ingest(names, root_fd, MemoryBlobs().put)}
    assert [got[name].errno for name in names] == [errno.ENOTSUP, errno.ELOOP, errno.ENOTSUP, errno.ENOENT, 0]
    assert got[b"file"].content is not None


class Meddler(MemoryBlobs):
    """Changes the file each time when something of it is stored, so many times."""

    def __init__(self, path: Path, times: int) -> None:
        super().__init__()
        self._path, self._left = path, times

    def put(self, data: bytes | memoryview, *, packed: bool = True) -> bytes:
        if self._left:
            self._left -= 1
            with self._path.open("ab") as file:
                file.write(b"more")
        return super().put(data, packed=packed)


def test_a_file_that_changes_is_read_again(root: Path, root_fd: int) -> None:
    (root / "a").write_bytes(b"abc")
    blobs = Meddler(root / "a", ATTEMPTS_MAX - 1)
    (got,) = ingest([b"a"], root_fd, blobs.put)
    assert not got.torn
    assert got.content is not None and blobs.get(got.content.name) == b"abc" + b"more" * (ATTEMPTS_MAX - 1)


def test_a_file_that_never_holds_still_is_torn(root: Path, root_fd: int) -> None:
    (root / "a").write_bytes(b"abc")
    (got,) = ingest([b"a"], root_fd, Meddler(root / "a", 1000).put)
    assert got.torn and got.content is not None
    assert got.before != got.after


def test_an_error_of_the_store_is_raised(root: Path, root_fd: int, tmp_path: Path) -> None:
    (root / "a").write_bytes(os.urandom(3 << 20))
    store = PackStore(tmp_path / "packs")

    def full(name: str) -> None:
        if name == "disk-write":
            raise OSError(errno.ENOSPC, "no room")

    with hooked(full), pytest.raises(BackendError, match="no room"):
        list(ingest([b"a"], root_fd, store.put))
    store.close()


# Several processes


def sized(root: Path, tree: dict[bytes, bytes]) -> list[tuple[bytes, int]]:
    return [(path, len(data)) for path, data in tree.items()]


@pytest.fixture
def worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "WORTH_FILES", 10)
    monkeypatch.setattr(parallel, "BATCH_FILES", 16)


def verify(store: PackStore, tree: dict[bytes, bytes], got: list[Ingested]) -> None:
    assert sorted(item.path for item in got) == sorted(tree)
    for item in got:
        assert item.content is not None and not item.torn
        assert b"".join(file_content.read(store.get, item.content)) == tree[item.path]
    assert list(store.check(deep=True)) == []
    assert [path.name for path in store.folder.iterdir() if path.suffix in {".part", ".tmp"}] == []


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_many_files_by_several_processes(
    root: Path, root_fd: int, tmp_path: Path, worth_it: None, processes: int
) -> None:
    tree = plant(root, 300)
    store = PackStore(tmp_path / "packs", pack_bytes_max=1 << 20)
    verify(store, tree, list(ingest_many(store, sized(root, tree), root_fd, processes=processes)))
    store.close()
    again = PackStore(tmp_path / "packs")
    before = again.size_bytes()
    verify(again, tree, list(ingest_many(again, sized(root, tree), root_fd, processes=processes)))
    assert again.size_bytes() == before, "what is there already is not stored again"
    again.close()


def test_the_files_of_a_worker_that_died_are_read_by_the_parent(
    root: Path, root_fd: int, tmp_path: Path, worth_it: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = plant(root, 300)
    start = parallel._start

    def start_and_kill(fd: int | None) -> subprocess.Popen[bytes]:
        process = start(fd)
        process.kill()
        process.wait()
        return process

    monkeypatch.setattr(parallel, "_start", start_and_kill)
    store = PackStore(tmp_path / "packs")
    verify(store, tree, list(ingest_many(store, sized(root, tree), root_fd, processes=3)))
    store.close()


def test_what_a_worker_answered_before_it_died_is_read_again(
    root: Path, root_fd: int, tmp_path: Path, worth_it: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = plant(root, 300)
    dismiss = parallel._Worker.dismiss

    def die(worker: parallel._Worker) -> None:
        while worker._open:
            answered.extend(worker._take())
        assert worker._process is not None
        worker._process.kill()
        worker._process.wait()
        dismiss(worker)

    answered: list[Ingested] = []
    monkeypatch.setattr(parallel._Worker, "dismiss", die)
    store = PackStore(tmp_path / "packs")
    got = list(ingest_many(store, sized(root, tree), root_fd, processes=2))
    assert answered, "it had read something"
    verify(store, tree, list({item.path: item for item in got}.values()))
    store.close()


def test_files_are_read_while_others_are_still_being_found(
    root: Path, root_fd: int, tmp_path: Path, worth_it: None
) -> None:
    tree = plant(root, 300)
    asked: list[bytes] = []

    def found() -> Iterator[tuple[bytes, int]]:
        for path, size in sized(root, tree):
            asked.append(path)
            yield path, size

    store = PackStore(tmp_path / "packs")
    reading = ingest_many(store, found(), root_fd, processes=2)
    first = next(reading)
    assert len(asked) < len(tree)
    verify(store, tree, [first, *reading])
    store.close()


def test_a_caller_that_stops_early_leaves_nothing_behind(
    root: Path, root_fd: int, tmp_path: Path, worth_it: None
) -> None:
    tree = plant(root, 300)
    store = PackStore(tmp_path / "packs")
    reading = ingest_many(store, sized(root, tree), root_fd, processes=2)
    next(reading)
    reading.close()  # type: ignore[attr-defined]
    verify(store, tree, list(ingest_many(store, sized(root, tree), root_fd, processes=1)))
    store.close()


def test_long_paths_do_not_make_parent_and_worker_wait_for_each_other(
    root: Path, root_fd: int, tmp_path: Path, worth_it: None
) -> None:
    folder = root
    for _ in range(8):
        folder = folder / ("n" * 240)
    folder.mkdir(parents=True)
    tree = {}
    for n in range(300):
        path = folder / f"{n:0200}"
        path.write_bytes(b"%d" % n)
        tree[os.fsencode(path.relative_to(root))] = b"%d" % n
    store = PackStore(tmp_path / "packs")
    verify(store, tree, list(ingest_many(store, sized(root, tree), root_fd, processes=2)))
    store.close()
