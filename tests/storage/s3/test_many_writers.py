"""Machines write and clean up at once: whatever comes in between, what a record names is in the bucket."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from takeback.core.events import CheckpointTaken, Mark
from takeback.errors import BackendError
from takeback.storage.content.bucket import sweep
from takeback.system import crash_points
from takeback.testing import crash
from takeback.testing.blob_contract import name_of
from tests.crash.points import declared
from tests.storage.s3 import world
from tests.storage.s3.world import Machine

pytestmark = pytest.mark.usefixtures("s3")

CLEANING = (sweep.CONDEMNED, sweep.ENDED, sweep.COPIED, sweep.REMOVED, sweep.FORGOTTEN)
SHARING = ("share-sent", "share-noted", "share-done", "share-ticket-taken", "share-listed")
SEEDS = range(400) if os.environ.get("TAKEBACK_TEST_ALL") else range(4)

X, Y, Z = b"x" * 3000, b"y" * 3000, b"z" * 3000


def pair(where: Path) -> tuple[Machine, Machine]:
    """Two machines that know of each other's content: X is in the bucket, and nobody needs it any more."""
    one, two = Machine(where, "one"), Machine(where, "two")
    one.name(X, kept=False)
    one.name(Y)
    two.name(Z, kept=False)
    two.store.look()
    return one, two


def test_every_crash_point_is_tried() -> None:
    ours = {name for name in declared() if name.split("-")[0] in {"share", "bucket"}} - {"bucket-asked"}
    assert ours == {*CLEANING, *SHARING}


@pytest.mark.parametrize("point", CLEANING)
def test_content_is_named_in_the_middle_of_a_clean_up(tmp_path: Path, point: str) -> None:
    one, two = pair(tmp_path)
    with crash.at(point, lambda: two.name(X)) as passes:
        one.clean_up()
    assert passes[point]
    # The machine that named it may have died since, so it does not mend anything by what it does next.
    world.verify(tmp_path)


@pytest.mark.parametrize("point", SHARING)
def test_a_clean_up_in_the_middle_of_sharing(tmp_path: Path, point: str) -> None:
    one, two = pair(tmp_path)
    two.store.put(X)
    two.store.sync()
    if point in ("share-ticket-taken", "share-listed"):
        two.store.known.note("fence", 10**9)  # it was lost long ago
    with crash.at(point, one.clean_up) as passes:
        two.name(b"something new")
        two.name(X)
    assert passes[point]
    world.verify(tmp_path)


def test_a_clean_up_between_sharing_and_the_record(tmp_path: Path) -> None:
    one, two = pair(tmp_path)
    digest = two.store.put(X)
    two.store.sync()
    assert two.store.known.has(digest)  # it relies on the object of the other one

    share, turns = two.ledger._share, []

    def late(again: bool) -> object:
        fences = share(again)
        turns.append(again)
        if len(turns) == 1:
            one.clean_up()
        return fences

    two.ledger._share = late  # type: ignore[assignment]
    two.name(X)
    assert turns == [False, True], "the record was refused, and written under another ticket"
    world.verify(tmp_path)


@pytest.mark.parametrize("point", CLEANING)
@pytest.mark.parametrize("what", ["clean", "name, clean and name"])
def test_a_clean_up_in_the_middle_of_another(tmp_path: Path, point: str, what: str) -> None:
    one, two = pair(tmp_path)
    # Both would copy what is live here into an object of their own.
    for turn in range(3):
        one.name(b"live %d" % turn * 400)
        one.name(b"dead %d" % turn * 900, kept=False)

    def meanwhile() -> None:
        if what != "clean":
            two.name(X)
        two.clean_up()
        if what.endswith("name"):
            two.name(Z)

    with crash.at(point, meanwhile) as passes:
        one.clean_up()
    assert passes[point]
    world.verify(tmp_path)


def test_what_was_only_in_the_bucket_and_is_removed_meanwhile_is_not_named(tmp_path: Path) -> None:
    one, two = pair(tmp_path)
    named = name_of(X)
    assert not two.store.missing([named])  # not here, but there
    one.clean_up()
    with pytest.raises(BackendError, match="a clean-up on another machine removed 1 blobs that were only in"):
        two.name(b"a record that may rely on it")
    assert two.store.missing([named])
    two.name(b"a record that does not")
    world.verify(tmp_path)


def test_what_is_condemned_is_still_there_and_is_copied_before_it_is_named(tmp_path: Path) -> None:
    one = Machine(tmp_path, "one")
    one.name(X)
    (pack,), bucket = one.store.bucket.list("packs"), one.store.bucket
    one.close()
    # A clean-up has condemned it, and sleeps. It saw that nobody needs it, before the record below.
    bucket.create("condemned/asleep", msgspec.json.encode([pack]))
    two = Machine(tmp_path, "two")
    assert two.store.missing([name_of(X)]) == set()
    two.ledger.append([CheckpointTaken("kept", "", (Mark("files", name_of(X).hex()),))])
    bucket.remove([pack, "condemned/asleep"])
    two.close()
    world.verify(tmp_path)


@pytest.mark.parametrize("seed", SEEDS)
def test_anything_in_between_anything(tmp_path: Path, seed: int) -> None:
    """At each named place of what one machine does, the others may do anything; and within that again."""
    chance = random.Random(seed)
    machines = [Machine(tmp_path, f"machine-{n}", object_bytes_max=4000) for n in range(3)]
    working: list[Machine] = []
    refused: list[BackendError] = []
    contents = [b"%d" % n * chance.choice((10, 500, 3000)) for n in range(8)]

    def act(who: Machine) -> None:
        working.append(who)
        try:
            doing: Callable[[], object] = chance.choice(
                [
                    lambda: who.name(chance.choice(contents), kept=chance.random() < 0.4),
                    lambda: who.name(chance.choice(contents), kept=False),
                    who.clean_up,
                ]
            )
            doing()
        except BackendError as error:
            refused.append(error)
        finally:
            working.remove(who)

    def hook(point: str) -> None:
        if not point.startswith(("bucket-", "share-", "fetch-")):
            return
        idle = [one for one in machines if one not in working]
        # Requests that are made at once are made in threads of their own; one thing at a time is enough here.
        if idle and threading.current_thread() is threading.main_thread() and chance.random() < 0.2:
            act(chance.choice(idle))

    before = crash_points.set_hook(hook)
    try:
        for _ in range(12):
            act(chance.choice(machines))
    finally:
        crash_points.set_hook(before)
    for one in machines:
        one.close()
    assert all(error.retryable for error in refused)
    world.verify(tmp_path)
