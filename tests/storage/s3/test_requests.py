"""What a checkpoint costs: counted, not timed."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from takeback.storage.content.bucket import listing
from tests.storage.s3 import world
from tests.storage.s3.world import Machine

pytestmark = pytest.mark.usefixtures("s3")


def test_a_checkpoint_costs_one_request(tmp_path: Path) -> None:
    one = Machine(tmp_path, "one")
    one.name(b"first")
    requests = one.store.bucket.requests
    requests.clear()
    one.name(b"second")
    assert requests == Counter(put=1)
    one.name(b"second")  # nothing new
    assert requests == Counter(put=1)
    one.close()
    # A process that comes later pays for seeing that the folder is of its format, once.
    again = Machine(tmp_path, "one")
    again.name(b"third")
    assert again.store.bucket.requests == Counter(get=1, put=1)
    again.close()


def test_nothing_to_share_asks_nobody(tmp_path: Path) -> None:
    one = Machine(tmp_path, "one")
    one.name(b"first")
    one.close()
    again = Machine(tmp_path, "one")
    again.name(b"first")
    assert again.store._bucket is None
    again.close()


def test_much_content_is_a_few_objects_of_bounded_size(tmp_path: Path) -> None:
    one = Machine(tmp_path, "one", object_bytes_max=1 << 20)
    names = [one.store.put(os.urandom(20_000)) for _ in range(300)]
    one.store.sync()
    told: list[int] = []

    def progress(what: str, items: object, total: int) -> object:
        told.append(total)
        return items

    one.store.share(progress)  # type: ignore[arg-type]
    sizes = one.store.bucket.list(listing.PACKS).values()
    assert len(sizes) == 6 and max(sizes) < 1_100_000
    assert told == [300]
    # A machine that knows nothing needs a list and a look at each object, and then each object once.
    two = Machine(tmp_path, "two")
    two.store.fetch(names)
    assert two.store.bucket.requests == Counter(get=1 + 6 + 6, list=2)
    for machine in (one, two):
        machine.close()


def test_content_that_is_there_already_is_not_sent_again(tmp_path: Path) -> None:
    one, two = Machine(tmp_path, "one"), Machine(tmp_path, "two")
    data = os.urandom(100_000)
    one.name(data)
    two.name(data)
    assert two.store.bucket.requests["put"] == 0
    # Fetched content is here, and came from there.
    three = Machine(tmp_path, "three")
    three.store.fetch(three.live())
    three.name(data)
    assert three.store.bucket.requests["put"] == 0
    for machine in (one, two, three):
        machine.close()
    world.verify(tmp_path)


def test_what_is_moved_by_a_clean_up_here_is_not_sent_again(tmp_path: Path) -> None:
    one = Machine(tmp_path, "one")
    one.name(b"dead" * 100, kept=False)
    one.name(b"live" * 100)
    one.store.sweep(one.live(), thorough=True)
    one.store.bucket.requests.clear()
    one.store.share()
    assert one.store.bucket.requests["put"] == 0
    one.close()


def test_small_objects_become_large_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("takeback.storage.content.bucket.sweep.SMALL_MAX", 4)
    one = Machine(tmp_path, "one")
    for n in range(6):
        one.name(b"content %d" % n)
    one.store.sweep_shared(one.live(), one.live)
    assert len(one.store.bucket.list(listing.PACKS)) == 1
    one.close()
    world.verify(tmp_path)
