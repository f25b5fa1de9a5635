"""A small store with a history, and what every test of damage asks of it afterwards."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable
from pathlib import Path

from takeback.storage.content.packs import PackStore
from takeback.storage.content.packs.ingest.parts import PartWriter
from takeback.testing.blob_contract import name_of

PACK_BYTES_MAX = 6000
LOG_ROWS_MAX = 12
KEPT, DROPPED = 18, 24


def open_small(folder: Path) -> PackStore:
    """A store that seals a pack and folds its log every few blobs."""
    return PackStore(folder, pack_bytes_max=PACK_BYTES_MAX, log_rows_max=LOG_ROWS_MAX)


def noise(seed: int, size: int = 400) -> bytes:
    return random.Random(seed).randbytes(size)


def kept(turn: int) -> list[bytes]:
    """What one turn of the history stores for good; some of it compresses, some does not."""
    return [noise(1000 * turn + n) if n % 3 else b"line %d\n" % (1000 * turn + n) * 40 for n in range(KEPT)]


def dropped(turn: int) -> list[bytes]:
    return [noise(1000 * turn + 500 + n, 300) for n in range(DROPPED)]


def live_until(turn: int) -> set[bytes]:
    return {name_of(data) for earlier in range(turn + 1) for data in kept(earlier)}


def store_turn(store: PackStore, turn: int) -> None:
    """One turn: store, some of it only to be swept away, and a part that a worker would have written."""
    for data in [data for pair in zip(kept(turn), dropped(turn), strict=False) for data in pair]:
        store.put(data)
    store.sync()
    for data in dropped(turn)[KEPT:]:
        store.put(data)
        store.sync()


def bulk_turn(store: PackStore, turn: int) -> None:
    writer = PartWriter(store.folder, store.reserve(4), PACK_BYTES_MAX)
    for data in kept(turn):
        writer.put(data)
    store.adopt(writer.finish())


def history(folder: str) -> None:
    """Live through some turns, saying after each step what must be there from now on."""
    store = open_small(Path(folder))
    for turn in range(3):
        if turn == 1:
            bulk_turn(store, turn)
        else:
            store_turn(store, turn)
        sys.stdout.write(f"{turn}\n")
        sys.stdout.flush()
        store.sweep(live_until(turn), thorough=turn == 2)
    store.close()


def verify(folder: Path, promised: Iterable[bytes]) -> None:
    """The promised contents are there, nothing is damaged, and life goes on."""
    promised = list(promised)
    reader = open_small(folder)
    assert [data for data in promised if reader.get(name_of(data)) != data] == []
    reader.close()
    store = open_small(folder)
    fresh = store.put(noise(-1))
    store.sync()
    assert list(store.check(deep=True)) == []
    live = {name_of(data) for data in promised} | {fresh}
    assert store.missing(live) == set()
    store.sweep(live, thorough=True)
    assert [data for data in promised if store.get(name_of(data)) != data] == []
    assert list(store.check(deep=True)) == []
    assert leftovers(folder) == []
    store.close()


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.suffix in {".tmp", ".part"}]
