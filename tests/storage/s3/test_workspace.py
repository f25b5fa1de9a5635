"""A workspace whose content is in a bucket, too: what its records name is found by another machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import takeback
from takeback.storage.bucket import SharedStore
from takeback.workspace import Workspace
from tests.storage.postgres.world import STORE
from tests.storage.s3.world import BUCKET

pytestmark = pytest.mark.usefixtures("server", "s3")


def opened(where: Path, name: str, machine: str = "a") -> Workspace:
    root = where / machine
    root.mkdir(exist_ok=True)
    return takeback.open(
        root,
        home=where / f"home-{machine}",
        store=os.environ[STORE],
        workspace=f"{where}/{name}",
        blobs=os.environ[BUCKET],
    )


def store(tb: Workspace) -> SharedStore:
    assert isinstance(tb.store, SharedStore)
    return tb.store


def test_another_machine_finds_what_a_checkpoint_names(tmp_path: Path) -> None:
    with opened(tmp_path, "shop") as tb:
        (tb.root / "kept").write_text("mine" * 1000)
        tb.save("first")
        needed = tb.needed()
        assert needed and store(tb).unshared(needed) == set()
        assert tb.verify(deep=True) == []
    with opened(tmp_path, "shop", "b") as other:
        content = store(other)
        assert content.stats().blobs == 0
        assert other.needed() == needed
        content.fetch(needed)
        assert super(SharedStore, content).missing(needed) == set()
        assert other.verify(deep=True) == []
