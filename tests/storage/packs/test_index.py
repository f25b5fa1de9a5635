"""Lookups stay cheap and right, however many blobs there are."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from takeback.errors import UsageError
from takeback.storage.content.packs import PackStore, raw_name
from takeback.storage.content.packs.format.index import (
    PACK_KEY,
    IndexRun,
    RecordLocation,
    merge,
    to_merge,
    write_run,
)
from takeback.testing.blob_contract import name_of
from takeback.testing.crash import hooked

from .world import noise


def table(rows: int, seed: int = 0) -> dict[bytes, bytes]:
    chance = random.Random(seed)
    return {chance.randbytes(32): RecordLocation(1, n, n, n).pack() for n in range(rows)}


@pytest.mark.parametrize("rows", [0, 1, 2, 255, 5000])
def test_a_run_finds_every_row_and_no_other(tmp_path: Path, rows: int) -> None:
    wanted = table(rows)
    write_run(tmp_path / "run", wanted)
    run = IndexRun(tmp_path / "run", 1)
    assert run.rows == rows
    assert {digest: run.find(digest) for digest in wanted} == wanted
    assert [digest for digest in table(1000, seed=1) if run.find(digest)] == []
    assert dict(run.items()) == wanted
    assert run.is_intact()
    run.close()


def test_rows_that_look_like_a_digest_across_two_rows_do_not_mislead(tmp_path: Path) -> None:
    one, two = bytes(4) + b"a" * 28, bytes(4) + b"b" * 28
    place = RecordLocation(1, 2, 3, 4).pack()
    across = (one + place + two)[20:52]
    assert across[:1] != bytes(1)
    hidden = bytes(4) + (one + place + two)[:28]
    wanted = {one: place, two: place, bytes(3) + b"\x01" + bytes(28): place}
    write_run(tmp_path / "run", wanted)
    run = IndexRun(tmp_path / "run", 1)
    assert run.find(one) == run.find(two) == place
    assert run.find(across) is None
    assert run.find(hidden) is None
    run.close()


def test_a_later_row_wins_and_one_of_a_lost_pack_hides_nothing() -> None:
    first, second, gone = (RecordLocation(number, 0, 0, 0).pack() for number in (1, 2, 3))
    known = {PACK_KEY(1), PACK_KEY(2)}
    assert merge([[(b"a", first), (b"b", first)], [(b"a", second)], [(b"b", gone)]], known) == {
        b"a": second,
        b"b": first,
    }


def test_there_are_few_runs(tmp_path: Path) -> None:
    store = PackStore(tmp_path / "packs", log_rows_max=20)
    for n in range(2000):
        store.put(b"%d" % n)
        if n % 7 == 0:
            store.sync()
    store.sync()
    runs = store._view.runs
    assert len(runs) <= 8
    assert all(older.rows > newer.rows for older, newer in pairwise(runs))
    assert to_merge(runs, 1) == []
    assert store.missing(name_of(b"%d" % n) for n in range(2000)) == set()
    store.close()


def test_nothing_is_parsed_to_open_a_large_store(tmp_path: Path) -> None:
    """The index is mapped; only the log is read, and the log is short."""
    store = PackStore(tmp_path / "packs", log_rows_max=100)
    for n in range(5000):
        store.put(b"%d" % n)
    store.sync()
    for n in range(10):
        store.put(b"later %d" % n)
    store.sync()
    store.close()
    store = PackStore(tmp_path / "packs")
    assert len(store._view.rows) == 10
    assert sum(run.rows for run in store._view.runs) == 5000
    assert store.has(name_of(b"77")) and store.has(name_of(b"later 7")) and not store.has(name_of(b"x"))
    store.close()


def test_a_batch_costs_one_sync_and_two_writes(tmp_path: Path) -> None:
    store = PackStore(tmp_path / "packs")
    store.put(b"the first makes the pack")
    store.sync()
    passes: Counter[str] = Counter()
    with hooked(lambda name: passes.update([name])):
        for n in range(200):
            store.put(noise(n, 100))
        store.sync()
    assert (passes["disk-sync"], passes["disk-write"]) == (1, 2)
    store.close()


def test_files_are_private(tmp_path: Path) -> None:
    store = PackStore(tmp_path / "packs", pack_bytes_max=2000, log_rows_max=2)
    for n in range(30):
        store.put(noise(n))
        store.sync()
    assert (tmp_path / "packs").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "packs").iterdir()} == {0o600}
    store.close()


@pytest.mark.parametrize("text", ["", "b3:", "b3:zz", "sha256:" + "0" * 64, "b3:" + "0" * 63])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a content name"):
        raw_name(text)
