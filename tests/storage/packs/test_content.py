"""Files of every size come back, a small change costs little, and holes cost nothing."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from takeback.errors import CorruptionError
from takeback.storage.content import file_content
from takeback.storage.content.file_content import BLOCK_BYTES, FAN_OUT, WHOLE_BYTES_MAX
from takeback.storage.content.packs import Content, MemoryBlobs, PackStore

MIB = 1 << 20
SIZES = (0, 1, WHOLE_BYTES_MAX, WHOLE_BYTES_MAX + 1, 16 * MIB, 16 * MIB + 1, 17 * MIB + 12345)


def store_file(blobs: MemoryBlobs | PackStore, path: Path) -> Content:
    with path.open("rb") as file:
        return file_content.put_file(blobs.put, file.fileno(), path.stat().st_size)


def restore(blobs: MemoryBlobs | PackStore, stored: Content, path: Path, *, sparse: bool = False) -> None:
    with path.open("wb") as file:
        file_content.write_file(blobs.get, stored, file.fileno(), sparse=sparse)


@pytest.mark.parametrize("size", SIZES)
def test_a_file_comes_back(tmp_path: Path, size: int) -> None:
    data = random.Random(size).randbytes(size)
    (tmp_path / "before").write_bytes(data)
    blobs = MemoryBlobs()
    stored = store_file(blobs, tmp_path / "before")
    assert stored.size == size
    assert stored.listed == (size > WHOLE_BYTES_MAX)
    assert b"".join(file_content.read(blobs.get, stored)) == data
    restore(blobs, stored, tmp_path / "after")
    assert (tmp_path / "after").read_bytes() == data
    assert file_content.put_bytes(blobs.put, data) == stored, (
        "the same bytes have the same name, wherever they are"
    )


def test_the_text_form_leads_back_and_tells_a_list_from_a_blob() -> None:
    whole, listed = Content(b"\x01" * 32, 5), Content(b"\x01" * 32, 5, listed=True)
    assert str(whole) == "b3:" + "01" * 32
    assert str(listed) == "b3-list:" + "01" * 32
    for stored in (whole, listed):
        assert file_content.parse(str(stored), 5) == stored


def test_a_changed_page_of_a_large_file_costs_a_block_and_its_lists(tmp_path: Path) -> None:
    """256 MiB on paper: most of it is holes, which cost nothing, so that the test is quick."""
    path = tmp_path / "large"
    chance = random.Random(1)
    with path.open("wb") as file:
        file.truncate(256 * MIB)
        for at in range(0, 256 * MIB, 2 * MIB):
            file.seek(at)
            file.write(chance.randbytes(BLOCK_BYTES))
    store = PackStore(tmp_path / "packs")
    first = store_file(store, path)
    store.sync()
    before = store.size_bytes()
    with path.open("r+b") as file:
        file.seek(100 * MIB + 8192)
        file.write(chance.randbytes(4096))
    second = store_file(store, path)
    store.sync()
    assert second.name != first.name
    assert store.size_bytes() - before < BLOCK_BYTES + 10 * 1024
    assert store.stats().blobs == 128 + 16 + 1 + 3
    store.close()


def test_a_sparse_file_is_stored_and_restored_in_no_time(tmp_path: Path) -> None:
    path, again = tmp_path / "sparse", tmp_path / "again"
    size = 5 * 1024 * MIB + 77
    with path.open("wb") as file:
        file.truncate(size)
        file.seek(3 * 1024 * MIB)
        file.write(b"in the middle of nowhere")
    blobs = MemoryBlobs()
    began = time.process_time()  # of computing: another process may keep the disk busy
    stored = store_file(blobs, path)
    restore(blobs, stored, again)
    assert time.process_time() - began < 1, "gigabytes of zeros were read or written"
    assert blobs.stats().blobs == 1 + 3
    assert again.stat().st_size == size
    assert again.stat().st_blocks * 512 <= BLOCK_BYTES
    with again.open("rb") as file:
        file.seek(3 * 1024 * MIB - 5)
        assert file.read(34) == bytes(5) + b"in the middle of nowhere" + bytes(5)
    assert sum(map(len, file_content.read(blobs.get, stored))) == size


def test_a_file_of_nothing_but_holes(tmp_path: Path) -> None:
    path, again = tmp_path / "empty", tmp_path / "again"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    blobs = MemoryBlobs()
    stored = store_file(blobs, path)
    assert blobs.stats().blobs == 1
    restore(blobs, stored, again)
    assert (again.stat().st_size, again.stat().st_blocks) == (1 << 40, 0)


def test_zeros_have_the_same_name_whether_they_are_a_hole_or_not(tmp_path: Path) -> None:
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(8 * MIB)
    (tmp_path / "zeros").write_bytes(bytes(8 * MIB))
    blobs = MemoryBlobs()
    assert store_file(blobs, tmp_path / "hole") == store_file(blobs, tmp_path / "zeros")
    assert store_file(blobs, tmp_path / "hole") == file_content.put_bytes(blobs.put, bytes(8 * MIB))
    assert (
        file_content.put_bytes(blobs.put, bytes(8 * MIB + 1)).name
        != file_content.put_bytes(blobs.put, bytes(8 * MIB)).name
    )


def test_small_holes_are_restored_on_demand(tmp_path: Path) -> None:
    path, again = tmp_path / "sparse", tmp_path / "again"
    with path.open("wb") as file:
        file.write(b"begin")
        file.seek(MIB)
        file.write(b"end")
        file.truncate(MIB + 100_000)
    blobs = MemoryBlobs()
    stored = store_file(blobs, path)
    assert not stored.listed
    restore(blobs, stored, again, sparse=True)
    assert again.read_bytes() == path.read_bytes()
    assert again.stat().st_blocks <= path.stat().st_blocks


def test_the_names_of_a_content_are_all_that_it_needs(tmp_path: Path) -> None:
    blobs = MemoryBlobs()
    data = random.Random(3).randbytes(BLOCK_BYTES * (FAN_OUT + 3)) + bytes(MIB)
    stored = file_content.put_bytes(blobs.put, data)
    small = file_content.put_bytes(blobs.put, b"small")
    dead = file_content.put_bytes(blobs.put, b"dead")
    live: set[bytes] = set()
    for item in (stored, small, stored):
        file_content.add_names(blobs.get, item, live)
    blobs.sweep(live)
    assert b"".join(file_content.read(blobs.get, stored)) == data
    assert blobs.has(small.name) and not blobs.has(dead.name)


def test_what_is_no_list_is_not_read_as_one() -> None:
    blobs = MemoryBlobs()
    large = file_content.put_bytes(blobs.put, random.Random(4).randbytes(6 * MIB))
    for bad in (
        Content(blobs.put(b"no list"), 6 * MIB, listed=True),
        Content(large.name, 6 * MIB + 1, listed=True),
        Content(blobs.put(blobs.get(large.name)[:-32]), 6 * MIB, listed=True),
    ):
        with pytest.raises(CorruptionError, match="b3:"):
            list(file_content.read(blobs.get, bad))


def test_a_file_that_shrinks_while_it_is_read_gives_zeros(tmp_path: Path) -> None:
    path = tmp_path / "shrinking"
    path.write_bytes(os.urandom(5 * MIB))
    blobs = MemoryBlobs()
    with path.open("rb") as file:
        stored = file_content.put_file(blobs.put, file.fileno(), 6 * MIB)
    assert b"".join(file_content.read(blobs.get, stored)) == path.read_bytes() + bytes(MIB)
