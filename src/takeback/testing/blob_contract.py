"""The contract of the `BlobStore` port, as a test suite that any implementation can run.

Say how to open yours, and pytest does the rest:

    class TestMyBlobs(DurableBlobContract):
        def open(self, where: Path) -> BlobStore:
            return MyBlobs(where / "blobs")

`open` is called again with the same folder to see what is still there. A store that ends with its object
takes `BlobContract`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from blake3 import blake3

from takeback.errors import CorruptionError
from takeback.ports.content import BlobStore
from takeback.storage.content.names import raw_name, text_name

SIZES = (0, 1, 127, 128, 129, 4095, 4096, 4097, 32 * 1024, 65_536, 1_000_003)


def samples() -> list[bytes]:
    """Contents of all kinds: empty, tiny, even, random, and random with a pattern at the end."""
    chance = random.Random(7)
    even = [b"takeback " * (size // 9) + b"x" * (size % 9) for size in SIZES]
    noise = [chance.randbytes(size) for size in SIZES]
    mixed = [chance.randbytes(5000) + b"=" * size for size in SIZES]
    return list(dict.fromkeys(even + noise + mixed))


def name_of(data: bytes) -> bytes:
    return blake3(data).digest()


class BlobContract:
    """Subclass it, with a name that pytest collects."""

    def open(self, where: Path) -> BlobStore:
        """Return the store that is kept in this folder; the same one for the same folder."""
        raise NotImplementedError

    @pytest.fixture
    def blobs(self, tmp_path: Path) -> Iterator[BlobStore]:
        blobs = self.open(tmp_path)
        yield blobs
        blobs.close()

    # Put and get

    def test_what_was_put_comes_back(self, blobs: BlobStore) -> None:
        names = {blobs.put(data): data for data in samples()}
        assert {name: blobs.get(name) for name in names} == names
        blobs.sync()
        assert {name: blobs.get(name) for name in names} == names

    def test_a_name_is_the_digest_of_the_bytes(self, blobs: BlobStore) -> None:
        assert blobs.put(b"abc") == name_of(b"abc")

    def test_a_view_of_memory_can_be_put_and_changed_afterwards(self, blobs: BlobStore) -> None:
        buffer = bytearray(os.urandom(1000))
        kept = bytes(buffer)
        name = blobs.put(memoryview(buffer))
        buffer[:] = bytes(1000)
        assert blobs.get(name) == kept

    def test_putting_again_keeps_one(self, blobs: BlobStore) -> None:
        data = os.urandom(10_000)
        blobs.put(data)
        blobs.sync()
        before = blobs.size_bytes()
        assert blobs.put(data) == blobs.put(data) == name_of(data)
        blobs.sync()
        assert blobs.size_bytes() == before
        assert blobs.stats().blobs == 1

    def test_a_name_that_the_caller_made_is_taken(self, blobs: BlobStore) -> None:
        blobs.put_named(name_of(b"abc"), b"abc")
        blobs.sync()
        assert blobs.get(name_of(b"abc")) == b"abc"

    def test_a_wrong_name_is_found_when_it_is_read(self, blobs: BlobStore) -> None:
        blobs.put_named(name_of(b"abc"), b"another")
        blobs.sync()
        with pytest.raises(CorruptionError, match=text_name(name_of(b"abc"))):
            blobs.get(name_of(b"abc"))
        assert [text_name(name_of(b"abc")) in found.what for found in blobs.check(deep=True)] == [True]

    def test_what_is_not_there_is_said_to_be_pruned_or_lost(self, blobs: BlobStore) -> None:
        blobs.put(b"abc")
        with pytest.raises(
            CorruptionError, match=f"{text_name(bytes(32))} was pruned or forgotten, or is lost"
        ):
            blobs.get(bytes(32))

    def test_many_come_back_once_each(self, blobs: BlobStore) -> None:
        names = [blobs.put(data) for data in samples()]
        blobs.sync()
        got = list(blobs.get_many(names + names[:3]))
        assert sorted(got) == sorted((name, blobs.get(name)) for name in names)

    # Has and missing

    def test_has_tells_what_get_would_find(self, blobs: BlobStore) -> None:
        assert not blobs.has(name_of(b"abc"))
        blobs.put(b"abc")
        assert blobs.has(name_of(b"abc"))
        blobs.sync()
        assert blobs.has(name_of(b"abc"))

    def test_missing_names_the_others(self, blobs: BlobStore) -> None:
        here, gone = blobs.put(b"here"), name_of(b"gone")
        assert blobs.missing([here, gone, here]) == {gone}
        assert blobs.missing([]) == set()

    # Batches

    def test_syncing_nothing_is_nothing(self, blobs: BlobStore) -> None:
        blobs.sync()
        blobs.begin()
        blobs.sync()
        assert blobs.stats().blobs == 0

    def test_what_was_synced_survives_a_new_batch(self, blobs: BlobStore) -> None:
        name = blobs.put(b"abc")
        blobs.sync()
        blobs.begin()
        assert blobs.get(name) == b"abc"

    # Size and check

    def test_the_size_follows_what_is_there(self, blobs: BlobStore) -> None:
        data = os.urandom(100_000)
        blobs.put(data)
        blobs.sync()
        assert 100_000 <= blobs.size_bytes() < 110_000
        assert 100_000 <= blobs.stats().bytes <= blobs.size_bytes()

    def test_a_sound_store_has_no_findings(self, blobs: BlobStore) -> None:
        for data in samples():
            blobs.put(data)
        blobs.sync()
        assert list(blobs.check()) == list(blobs.check(deep=True)) == []

    # Sweep

    def test_a_sweep_keeps_what_is_live(self, blobs: BlobStore) -> None:
        names = [blobs.put(data) for data in samples()]
        blobs.sync()
        blobs.sweep(set(names[::2]))
        assert blobs.missing(names[::2]) == set()
        assert all(name_of(blobs.get(name)) == name for name in names[::2])
        assert list(blobs.check(deep=True)) == []

    def test_a_sweep_of_everything_leaves_nothing(self, blobs: BlobStore) -> None:
        names = [blobs.put(data) for data in samples()]
        blobs.sync()
        assert blobs.sweep(set()).bytes_freed > 1_000_000
        assert blobs.missing(names) == set(names)
        assert blobs.stats().bytes == 0

    def test_a_thorough_sweep_leaves_nothing_dead(self, blobs: BlobStore) -> None:
        names = [blobs.put(data) for data in samples()]
        blobs.sync()
        blobs.sweep(set(names[1:]), thorough=True)
        assert blobs.missing(names) == {names[0]}

    def test_what_was_swept_can_be_put_again(self, blobs: BlobStore) -> None:
        blobs.put(b"abc")
        blobs.sync()
        blobs.sweep(set())
        name = blobs.put(b"abc")
        blobs.sync()
        assert blobs.get(name) == b"abc"

    def test_a_live_name_that_is_not_there_harms_nothing(self, blobs: BlobStore) -> None:
        name = blobs.put(b"abc")
        blobs.sync()
        blobs.sweep({name, bytes(32)})
        assert blobs.get(name) == b"abc"

    # Names

    def test_a_name_as_text_leads_back(self) -> None:
        assert raw_name(text_name(name_of(b"abc"))) == name_of(b"abc")

    def test_closing_twice_is_fine(self, tmp_path: Path) -> None:
        blobs = self.open(tmp_path)
        blobs.close()
        blobs.close()


class DurableBlobContract(BlobContract):
    """For a store that others can open, now and later."""

    def test_what_was_synced_is_there_for_the_next(self, tmp_path: Path) -> None:
        blobs = self.open(tmp_path)
        names = [blobs.put(data) for data in samples()]
        blobs.sync()
        blobs.close()
        again = self.open(tmp_path)
        assert [again.get(name) for name in names] == samples()
        again.close()

    def test_two_that_are_open_see_each_other(self, tmp_path: Path) -> None:
        one, two = self.open(tmp_path), self.open(tmp_path)
        for turn in range(20):
            writer, reader = (one, two) if turn % 3 else (two, one)
            name = writer.put(b"turn %d" % turn)
            writer.sync()
            assert reader.has(name)
            assert reader.get(name) == b"turn %d" % turn
        one.close()
        two.close()

    def test_another_may_write_after_a_batch_that_was_left(self, tmp_path: Path) -> None:
        one, two = self.open(tmp_path), self.open(tmp_path)
        kept = one.put(b"kept")
        one.sync()
        one.put(os.urandom(2_000_000))
        other = two.put(b"other")
        two.sync()
        one.begin()
        last = one.put(b"last")
        one.sync()
        for blobs in (one, two):
            assert blobs.missing([kept, other, last]) == set()
            assert [blobs.get(name) for name in (kept, other, last)] == [b"kept", b"other", b"last"]
            assert list(blobs.check(deep=True)) == []
        one.close()
        two.close()

    def test_one_that_is_open_survives_the_sweep_of_another(self, tmp_path: Path) -> None:
        one, two = self.open(tmp_path), self.open(tmp_path)
        names = [one.put(data) for data in samples()]
        one.sync()
        assert two.missing(names) == set()
        one.sweep(set(names[::2]), thorough=True)
        assert two.missing(names) == set(names[1::2])
        assert [two.get(name) for name in names[::2]] == samples()[::2]
        late = two.put(b"late")
        two.sync()
        assert one.get(late) == b"late"
        one.close()
        two.close()
