"""Every write and every sync fails once, or from then on: what was promised stays, and the batch is gone."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from takeback.errors import BackendError
from takeback.testing.blob_contract import name_of
from takeback.testing.crash import hooked
from tests.sampling import ALL, half

from . import world


@contextmanager
def failing(point: str, nth: int, error: int, *, forever: bool) -> Iterator[Callable[[], bool]]:
    """Let a place fail at its n-th pass; tells whether it did."""
    passes = 0

    def hook(name: str) -> None:
        nonlocal passes
        if name == point:
            passes += 1
            if passes == nth or (forever and passes > nth):
                raise OSError(error, os.strerror(error))

    with hooked(hook):
        yield lambda: passes >= nth


def attempt(folder: Path) -> list[bytes]:
    """Live the history with one store that goes on after errors; give what it promised."""
    promised: list[bytes] = []
    store = world.open_small(folder)
    for turn in range(3):
        try:
            (world.bulk_turn if turn == 1 else world.store_turn)(store, turn)
            promised += world.kept(turn)
        except BackendError:
            pass
        assert [data for data in promised if store.get(name_of(data)) != data] == []
        try:
            store.sweep({name_of(data) for data in promised}, thorough=turn == 2)
        except BackendError:
            pass
        assert [data for data in promised if store.get(name_of(data)) != data] == []
    store.close()
    return promised


@pytest.mark.parametrize(
    "point, error, forever", half(["disk-write", "disk-sync"], [errno.ENOSPC, errno.EIO], [False, True])
)
def test_every_call_fails(tmp_path: Path, point: str, error: int, forever: bool) -> None:
    step = 1 if ALL else 3
    for nth in range(1, 1000, step):
        folder = tmp_path / str(nth)
        with failing(point, nth, error, forever=forever) as happened:
            promised = attempt(folder)
        world.verify(folder, promised)
        if not happened():
            assert nth > 20, "the history never gets there"
            return
    pytest.fail("it never succeeds")


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_failed_sync_forgets_the_batch_and_nothing_else(tmp_path: Path, error: int) -> None:
    store = world.open_small(tmp_path / "packs")
    first = store.put(b"first")
    store.sync()
    second = store.put(b"second")
    with (
        failing("disk-sync", 1, error, forever=False),
        pytest.raises(BackendError, match="content put since the last sync was discarded"),
    ):
        store.sync()
    assert store.missing([first, second]) == {second}
    # The kernel may believe that the lost pages are clean, so the next sync must not be trusted with them.
    assert sum(path.stat().st_size for path in store.folder.glob("*.pack")) == store.stats().bytes
    store.put(b"second")
    store.sync()
    store.close()
    world.verify(tmp_path / "packs", [b"first", b"second"])
