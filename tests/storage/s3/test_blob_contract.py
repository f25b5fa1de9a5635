"""The store with a bucket behind it keeps every sentence of the port; and so do machines that share one bucket."""

from __future__ import annotations

import itertools
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import pytest

from takeback.ports.content import BlobStore, Swept
from takeback.storage.content.bucket import PLAIN, Seal, SharedStore
from takeback.testing.blob_contract import DurableBlobContract
from tests.storage.s3 import world

_numbers = itertools.count()


class AtOnce(SharedStore):
    """What is synced is for all machines at once, as where a record follows each time, and what is swept is gone."""

    def sync(self) -> None:
        super().sync()
        self.share()

    def sweep(self, live: AbstractSet[bytes], **how: Any) -> Swept:
        swept = super().sweep(live, **how)
        self.sweep_shared(set(live), lambda: set(live), thorough=how.get("thorough", False))
        return swept


@pytest.mark.usefixtures("s3")
class TestOneMachine(DurableBlobContract):
    def open(self, where: Path) -> BlobStore:
        return world.machine(where, "here", world.journal_in(where))


@pytest.mark.usefixtures("s3")
class TestMachines(DurableBlobContract):
    """Each `open` is another machine: all that they have in common is the bucket, and the leases of one journal."""

    seal = PLAIN

    def open(self, where: Path) -> BlobStore:
        name = f"machine-{next(_numbers)}"
        return world.machine(where, name, world.journal_in(where), seal=self.seal, kind=AtOnce)


class TestMachinesWithAKey(TestMachines):
    seal = Seal(bytes(range(32)))
