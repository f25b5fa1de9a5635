"""Whatever happens to the files, a blob comes back right or not at all, and damage has a name and a place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from takeback.errors import BackendError, CorruptionError, FormatTooNew
from takeback.storage.content.packs import PackStore, text_name
from takeback.testing import crash
from takeback.testing.blob_contract import name_of

from . import world

EVERY = bool(os.environ.get("TAKEBACK_TEST_ALL"))

SYNCED = [b"first " * 50, world.noise(1, 200), b"", b"x"]
BATCH = [world.noise(2, 150), b"second " * 40, world.noise(3, 90)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "packs"


def fill(folder: Path, *batches: list[bytes], small: bool = False) -> None:
    store = world.open_small(folder) if small else PackStore(folder)
    for batch in batches:
        for data in batch:
            store.put(data)
        store.sync()
    store.close()


def only(folder: Path, suffix: str) -> Path:
    (found,) = folder.glob(f"*{suffix}")
    return found


def copies(folder: Path, scratch: Path) -> Iterator[Path]:
    """Copies of a store without end, each in place of the one before."""
    while True:
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(folder, scratch)
        yield scratch


def right_or_missing(store: PackStore, contents: list[bytes]) -> list[bytes]:
    """Give those that are there; a wrong one is an error."""
    found = []
    for data in contents:
        try:
            got = store.get(name_of(data))
        except CorruptionError as error:
            named = text_name(name_of(data)) in error.message
        else:
            named = got == data
            found.append(data)
        assert named
    return found


# Cut short


def test_the_active_pack_cut_at_every_byte(folder: Path, tmp_path: Path) -> None:
    """As after a power cut: the log is lost, the pack ends anywhere. Whole records stay, a torn one goes."""
    fill(folder, SYNCED, BATCH)
    pack = only(folder, ".pack")
    size, last = pack.stat().st_size, -1
    for at, copy in zip(range(size + 1), copies(folder, tmp_path / "copy"), strict=False):
        only(copy, ".log").unlink()
        os.truncate(copy / pack.name, at)
        reader = PackStore(copy)
        found = right_or_missing(reader, SYNCED + BATCH)
        reader.close()
        assert found == (SYNCED + BATCH)[: len(found)]
        assert len(found) >= last, "a longer pack has no fewer records"
        last = len(found)
        writer = PackStore(copy)
        writer.put(b"more")
        writer.sync()
        assert right_or_missing(writer, SYNCED + BATCH) == found
        assert list(writer.check(deep=True)) == []
        writer.close()
    assert last == len(SYNCED + BATCH)


def test_the_tail_of_a_batch_cut_at_every_byte(folder: Path, tmp_path: Path) -> None:
    """As after a crash: the log knows the first batch; of the second there is some, without a frame."""
    fill(folder, SYNCED)
    known = only(folder, ".log").read_bytes()
    pack = only(folder, ".pack")
    start = pack.stat().st_size
    fill(folder, BATCH)
    size = pack.stat().st_size
    for at, copy in zip(range(start, size + 1), copies(folder, tmp_path / "copy"), strict=False):
        only(copy, ".log").write_bytes(known)
        os.truncate(copy / pack.name, at)
        store = PackStore(copy)
        store.begin()
        assert right_or_missing(store, SYNCED) == SYNCED
        found = right_or_missing(store, BATCH)
        assert found == BATCH[: len(found)]
        assert list(store.check(deep=True)) == []
        store.close()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("suffix", [".log", ".idx", "catalog"])
def test_the_index_cut_at_every_byte(folder: Path, tmp_path: Path, suffix: str) -> None:
    fill(folder, world.kept(0), world.dropped(0), SYNCED, small=True)
    contents = world.kept(0) + world.dropped(0) + SYNCED
    path = max(folder.glob(f"*{suffix}"))
    size = path.stat().st_size
    step = 1 if EVERY else max(1, size // 40)
    for at, copy in zip(range(0, size, step), copies(folder, tmp_path / "copy"), strict=False):
        os.truncate(copy / path.name, at)
        reader = world.open_small(copy)
        assert reader.missing(map(name_of, contents)) == set()
        assert right_or_missing(reader, contents) == contents
        reader.close()
        world.verify(copy, contents)


@pytest.mark.parametrize("lost", ["*.log", "*.idx", "catalog", "*.[lic]*"])
def test_the_index_is_made_again_from_the_packs(folder: Path, lost: str) -> None:
    fill(folder, world.kept(0), world.dropped(0), SYNCED, small=True)
    contents = world.kept(0) + world.dropped(0) + SYNCED
    for path in [*folder.glob(lost), *(folder.glob("catalog") if lost == "*.[lic]*" else ())]:
        path.unlink(missing_ok=True)
    reader = world.open_small(folder)
    assert right_or_missing(reader, contents) == contents
    assert reader.missing(map(name_of, contents)) == set()
    before = reader.stats()
    writer = world.open_small(folder)
    for data in contents:
        writer.put(data)
    writer.sync()
    assert writer.stats().blobs == len(contents), "nothing was stored twice"
    assert writer.stats().blobs >= before.blobs
    assert list(writer.check(deep=True)) == []
    assert right_or_missing(reader, contents) == contents
    reader.close()
    writer.close()


def test_a_hole_in_an_unsynced_tail_becomes_filler(folder: Path) -> None:
    """The power can take a page in the middle of a tail and leave the later ones."""
    fill(folder, SYNCED)
    known = only(folder, ".log").read_bytes()
    pack = only(folder, ".pack")
    start = pack.stat().st_size
    fill(folder, BATCH)
    only(folder, ".log").write_bytes(known)
    with pack.open("r+b") as file:
        file.seek(start)
        file.write(bytes(60))
    store = PackStore(folder)
    store.put(b"more")
    store.sync()
    assert right_or_missing(store, SYNCED + BATCH) == SYNCED + BATCH[1:]
    assert list(store.check(deep=True)) == []
    store.close()


@pytest.mark.parametrize("sealed", [False, True])
def test_a_tail_is_synced_before_anybody_relies_on_it(folder: Path, sealed: bool) -> None:
    """Its writer may have died between the write and the sync, so what is there could still be lost."""
    fill(folder, world.kept(0) if sealed else SYNCED, small=sealed)
    for path in [*folder.glob("*.log"), *folder.glob("catalog")]:
        path.unlink()
    store = world.open_small(folder)
    with crash.at("never", list) as passes:
        store.begin()
    packs = len(list(folder.glob("*.pack")))
    assert passes["disk-sync"] >= 2 * packs > 0, "each pack and its name"
    store.close()


# Flipped bits


def flips(size: int) -> Iterator[tuple[int, int]]:
    step = 1 if EVERY else max(1, size // 150)
    return ((at, at % 8) for at in range(0, size, step))


def flip(path: Path, at: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 1 << bit]))


def test_a_flipped_bit_in_a_pack_is_found_and_named(folder: Path, tmp_path: Path) -> None:
    fill(folder, SYNCED, BATCH)
    pack = only(folder, ".pack")
    for (at, bit), copy in zip(flips(pack.stat().st_size), copies(folder, tmp_path / "copy"), strict=False):
        flip(copy / pack.name, at, bit)
        store = PackStore(copy)
        try:
            found = right_or_missing(store, SYNCED + BATCH)
            findings = list(store.check(deep=True))
        except FormatTooNew:
            assert at < 16
            continue
        assert len(found) >= len(SYNCED + BATCH) - 1, "one bit takes one blob at most"
        # Some bits of a compressed frame mean nothing, so that the blob is still right.
        assert findings or found == SYNCED + BATCH
        assert all(finding.place.startswith(pack.name) for finding in findings)
        store.close()


def test_the_error_names_digest_pack_and_offset(folder: Path) -> None:
    fill(folder, SYNCED)
    pack = only(folder, ".pack")
    offset = pack.read_bytes().index(SYNCED[1])
    flip(pack, offset + 7, 3)
    store = PackStore(folder)
    with pytest.raises(CorruptionError) as caught:
        store.get(name_of(SYNCED[1]))
    assert text_name(name_of(SYNCED[1])) in caught.value.message
    assert f"in {pack.name} at {offset - 52} is damaged" in caught.value.message
    (finding,) = store.check(deep=True)
    assert finding.place == f"{pack.name} at {offset - 52}"
    assert text_name(name_of(SYNCED[1])) in finding.what
    store.close()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("suffix", [".log", ".idx", "catalog"])
def test_a_flipped_bit_in_the_index_loses_nothing(folder: Path, tmp_path: Path, suffix: str) -> None:
    fill(folder, world.kept(0), world.dropped(0), SYNCED, small=True)
    contents = world.kept(0) + world.dropped(0) + SYNCED
    path = max(folder.glob(f"*{suffix}"))
    for (at, bit), copy in zip(flips(path.stat().st_size), copies(folder, tmp_path / "copy"), strict=False):
        flip(copy / path.name, at, bit)
        try:
            reader = world.open_small(copy)
        except FormatTooNew:
            assert at < 16
            continue
        assert right_or_missing(reader, contents) == contents
        if suffix == ".idx":
            assert any(finding.place in {path.name, "index"} for finding in reader.check())
        reader.close()
        store = world.open_small(copy)
        store.sweep(set(map(name_of, contents)), thorough=True)
        assert right_or_missing(store, contents) == contents
        store.close()


# Other mishaps


def test_a_pack_of_a_newer_version_is_not_touched(folder: Path) -> None:
    fill(folder, SYNCED)
    pack = only(folder, ".pack")
    with pack.open("r+b") as file:
        file.seek(12)
        file.write(b"\x09")
    only(folder, ".log").unlink()
    before = pack.read_bytes()
    store = PackStore(folder)
    with pytest.raises(FormatTooNew, match="format 9"):
        store.put(b"more")
    assert pack.read_bytes() == before
    store.close()


def test_a_pack_that_is_gone_is_named_and_its_contents_can_be_stored_again(folder: Path) -> None:
    fill(folder, SYNCED)
    only(folder, ".pack").unlink()
    store = PackStore(folder)
    assert [finding.place for finding in store.check()] == ["00000001.pack"]
    with pytest.raises(CorruptionError, match=r"00000001\.pack"):
        store.get(name_of(SYNCED[0]))
    store.begin()
    assert store.missing(map(name_of, SYNCED)) == set(map(name_of, SYNCED))
    fill(folder, SYNCED)
    assert right_or_missing(store, SYNCED) == SYNCED
    store.close()


def test_a_pack_cut_short_from_outside_loses_only_what_was_cut(folder: Path) -> None:
    fill(folder, SYNCED, BATCH)
    pack = only(folder, ".pack")
    os.truncate(pack, pack.stat().st_size - 20)
    store = PackStore(folder)
    assert any("should have" in finding.what for finding in store.check())
    store.begin()
    assert right_or_missing(store, SYNCED + BATCH) == SYNCED + BATCH[:-1]
    assert store.missing(map(name_of, BATCH)) == {name_of(BATCH[-1])}, "so that it is stored again"
    store.close()


def test_a_pack_inside_a_pack_confuses_nobody(folder: Path, tmp_path: Path) -> None:
    fill(folder, SYNCED, BATCH, small=True)
    inner = world.noise(9, 20_000) + only(folder, ".pack").read_bytes()
    outer = tmp_path / "outer"
    fill(outer, [inner])
    for path in outer.glob("*.log"):
        path.unlink()
    store = PackStore(outer)
    store.begin()
    assert store.get(name_of(inner)) == inner
    assert list(store.check(deep=True)) == []
    store.close()


def test_two_that_write_at_once_lose_their_batch_and_nothing_else(folder: Path) -> None:
    """It is against the rules, and must not be believed."""
    one, two = PackStore(folder), PackStore(folder)
    first = one.put(b"first")
    one.sync()
    two.has(first)
    one.put(b"one")
    two.put(b"two")
    two.sync()
    with pytest.raises(BackendError, match="another process") as caught:
        one.sync()
    assert caught.value.retryable
    one.put(b"one")
    one.sync()
    assert right_or_missing(two, [b"first", b"one", b"two"]) == [b"first", b"one", b"two"]
    assert list(two.check(deep=True)) == []
    one.close()
    two.close()
