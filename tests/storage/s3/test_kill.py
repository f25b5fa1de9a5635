"""A process killed at any named place loses nothing that a record names, and leaves nothing that hurts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from takeback.testing import crash
from tests.crash.points import declared
from tests.storage.s3 import world
from tests.storage.s3.world import Machine

pytestmark = pytest.mark.usefixtures("s3")

EVERY = bool(os.environ.get("TAKEBACK_TEST_ALL"))
POINTS = sorted(
    {
        "share-sent", "share-noted", "share-done", "share-ticket-taken", "share-listed", "fetch-read", "fetch-kept",
        "bucket-gc-condemned", "bucket-gc-ended", "bucket-gc-copied", "bucket-gc-removed", "bucket-gc-forgotten",
    }
)  # fmt: skip
TURNS = (1, 2) if EVERY else (1,)
REQUESTS = range(1, 60) if EVERY else (9, 26)


def test_every_crash_point_is_tried() -> None:
    ours = {name for name in declared() if name.split("-")[0] in {"share", "bucket", "fetch"}}
    assert ours - {"bucket-asked"} == set(POINTS)


@pytest.mark.parametrize(
    "point, nth", [*((p, n) for p in POINTS for n in TURNS), *(("bucket-asked", n) for n in REQUESTS)]
)
def test_killed(tmp_path: Path, point: str, nth: int) -> None:
    done = crash.run(point, nth, [f"{world.__name__}:history", tmp_path], cwd=Path(__file__).parents[3])
    assert done.returncode in {crash.KILLED, 0}, done.stderr
    assert done.returncode == crash.KILLED or nth > 1, "the history never gets there"
    # The machines that were killed go on, and so does one that knows nothing.
    for name in ("one", "two"):
        again = Machine(tmp_path, name)
        again.name(b"after it")
        again.clean_up()
        assert again.store.unshared(again.live()) == set()
        again.close()
    world.verify(tmp_path)
