"""A sweep never removes a live blob, never needs twice the room, and disturbs no reader."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from takeback.errors import CorruptionError
from takeback.storage.content.packs import PackStore
from takeback.testing import crash
from takeback.testing.blob_contract import name_of

from . import world
from .world import noise

PACK_BYTES = 64 * 1024


def open_store(folder: Path) -> PackStore:
    return PackStore(folder, pack_bytes_max=PACK_BYTES)


def fill(folder: Path, packs: int) -> tuple[PackStore, list[bytes]]:
    """Packs of 16 blobs of 4 KiB each, which do not compress."""
    store = open_store(folder)
    contents = [noise(n, 4096) for n in range(16 * packs)]
    for data in contents:
        store.put(data)
    store.sync()
    return store, contents


def on_disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "packs"


def test_the_room_needed_besides_is_that_of_one_pack(folder: Path) -> None:
    store, contents = fill(folder, 12)
    live = {name_of(data) for data in contents[::2]}
    before = peak = on_disk(folder)

    def look(name: str) -> None:
        nonlocal peak
        peak = max(peak, on_disk(folder))

    with crash.hooked(look):
        swept = store.sweep(live)
    assert peak - before < PACK_BYTES * 1.2
    assert on_disk(folder) < before * 0.6
    assert swept.packs_removed == 12
    assert swept.bytes_freed - swept.bytes_copied == pytest.approx(before - on_disk(folder), rel=0.1)
    assert [data for data in contents[::2] if store.get(name_of(data)) != data] == []
    store.close()


def test_a_pack_that_is_mostly_live_is_left_alone(folder: Path) -> None:
    store, contents = fill(folder, 2)
    live = {name_of(data) for data in contents} - {name_of(contents[0]), name_of(contents[1])}
    assert store.sweep(live).packs_removed == 0
    assert store.sweep(live, thorough=True).packs_removed == 1
    assert store.missing(map(name_of, contents)) == {name_of(contents[0]), name_of(contents[1])}
    store.close()


def test_a_thorough_sweep_compresses_harder_and_only_once(folder: Path) -> None:
    store = open_store(folder)
    names = {store.put(b"".join(b"%d: %d\n" % (n, n * n) for n in range(k, k + 900))) for k in range(20)}
    store.sync()
    before = store.stats().bytes
    assert store.sweep(names).packs_removed == 0
    store.sweep(names, thorough=True)
    assert store.stats().bytes < before
    again = store.sweep(names, thorough=True)
    assert (again.packs_removed, again.bytes_copied) == (0, 0)
    assert list(store.check(deep=True)) == []
    store.close()


def test_the_emptiest_go_first_and_the_budget_holds(folder: Path) -> None:
    store, contents = fill(folder, 4)
    live = {name_of(data) for n, data in enumerate(contents) if n % 16 < (0, 4, 8, 12)[n // 16]}
    swept = store.sweep(live, copy_bytes_max=5 * 4200)
    assert swept.packs_removed == 2
    assert swept.stopped == "the budget is used up"
    assert store.missing(live) == set()
    assert store.sweep(live).packs_removed == 2
    store.close()


def test_dead_packs_can_be_removed_from_a_full_disk(folder: Path) -> None:
    store, contents = fill(folder, 6)
    live = {name_of(data) for data in contents[: 16 + 4]}  # one live pack, one sparse one, four dead ones
    before = on_disk(folder)

    def full(name: str) -> None:
        if name == "disk-write":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with crash.hooked(full):
        swept = store.sweep(live)
    assert swept.packs_removed == 4
    assert swept.stopped == "the disk is full"
    assert on_disk(folder) < before * 0.4
    store.close()
    world.verify(folder, contents[: 16 + 4])


def test_a_damaged_live_blob_keeps_its_pack(folder: Path) -> None:
    store, contents = fill(folder, 2)
    pack = folder / "00000001.pack"
    data = bytearray(pack.read_bytes())
    data[data.index(contents[3]) + 100] ^= 1
    pack.write_bytes(data)
    swept = store.sweep({name_of(data) for data in contents[:5]})
    assert [finding.place.split()[0] for finding in swept.findings] == [pack.name]
    assert pack.exists()
    assert not (folder / "00000002.pack").exists()
    assert [n for n in (0, 1, 2, 4) if store.get(name_of(contents[n])) != contents[n]] == []
    with pytest.raises(CorruptionError, match=pack.name):
        store.get(name_of(contents[3]))
    store.close()


def test_a_blob_that_is_stored_twice_survives_as_one(folder: Path) -> None:
    """As after a crash between copying and removing."""
    store, contents = fill(folder, 2)
    live = {name_of(data) for data in contents[:4]}
    with pytest.raises(KeyboardInterrupt), crash.at("gc-copied", interrupt):
        store.sweep(live)
    store.close()
    store = open_store(folder)
    assert store.sweep(live).bytes_copied == 0, "the copies are the ones that count"
    assert [data for data in contents[:4] if store.get(name_of(data)) != data] == []
    assert store.stats().blobs == 4
    store.close()


def interrupt() -> None:
    raise KeyboardInterrupt


READER = """
import sys
from pathlib import Path
from takeback.storage.content.packs import PackStore
store = PackStore(Path(sys.argv[1]))
names = [bytes.fromhex(line) for line in sys.stdin.readline().split()]
print("ready", flush=True)
turns = 0
while turns < 3 or not Path(sys.argv[1], "stop").exists():
    assert not store.missing(names)
    for name in names[turns % 7 :: 7]:
        store.get(name)
    turns += 1
"""


def test_a_reader_in_another_process_notices_nothing(folder: Path) -> None:
    store, contents = fill(folder, 6)
    live = {name_of(data) for data in contents[::3]}
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, str(folder)],
        env=crash.child_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert reader.stdin is not None and reader.stdout is not None
    reader.stdin.write(" ".join(name.hex() for name in live) + "\n")
    reader.stdin.flush()
    assert reader.stdout.readline() == "ready\n"
    for turn in range(15):
        for n in range(16):
            store.put(noise(10_000 + 16 * turn + n, 4096))
        store.sync()
        store.sweep(live, thorough=turn % 5 == 4)
    (folder / "stop").touch()
    _, said = reader.communicate(timeout=60)
    assert reader.returncode == 0, said
    store.close()
