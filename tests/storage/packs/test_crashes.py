"""A process killed at any named place loses nothing that it was promised, and leaves nothing that hurts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from takeback.testing import crash
from tests.crash.points import declared

from . import world

POINTS = sorted(
    {
        "pack-written", "pack-synced", "pack-sealed", "run-written", "pack-indexed", "part-finished",
        "part-adopted", "gc-copied", "gc-noted", "gc-unlinked", "disk-write", "disk-sync",
    }
)  # fmt: skip
TURNS = (1, 2, 3, 5, 8, 13, 21, 34) if os.environ.get("TAKEBACK_TEST_ALL") else (1, 3, 8)


def promised(said: str) -> list[bytes]:
    return [data for turn in said.split() for data in world.kept(int(turn))]


def test_every_crash_point_is_tried() -> None:
    from takeback.storage.content.packs.ingest import parallel  # noqa: F401  declares them

    ours = {name for name in declared() if name.split("-")[0] in {"pack", "run", "part", "gc"}}
    assert ours <= set(POINTS)


@pytest.mark.parametrize("nth", TURNS)
@pytest.mark.parametrize("point", POINTS)
def test_killed(tmp_path: Path, point: str, nth: int) -> None:
    folder = tmp_path / "packs"
    done = crash.run(point, nth, [f"{world.__name__}:history", folder], cwd=Path(__file__).parents[3])
    assert done.returncode in {crash.KILLED, 0}, done.stderr
    assert done.returncode == crash.KILLED or nth > 1, "the history never gets there"
    world.verify(folder, promised(done.stdout))
