"""Any history of storing, sweeping, crashing and reopening agrees with a dict."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from takeback.storage.content.packs import PackStore
from takeback.storage.content.packs.ingest.parts import PartWriter
from takeback.testing.blob_contract import name_of

from . import world

contents = st.one_of(
    st.binary(max_size=300),
    st.builds(world.noise, st.integers(0, 30), st.sampled_from([100, 700, 3000])),
    st.builds(lambda n: b"even %d " % n * 100, st.integers(0, 10)),
)
batches = st.lists(contents, min_size=1, max_size=12)


class PackStoreAgainstADict(RuleBasedStateMachine):
    """`durable` must be there; `loose` was put and not synced, so it may be."""

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp())
        self.generation = 0
        self.durable: dict[bytes, bytes] = {}
        self.loose: dict[bytes, bytes] = {}
        self.sizes: dict[str, int] = {}

    @property
    def folder(self) -> Path:
        return self.home / str(self.generation)

    @initialize()
    def open(self) -> None:
        self.store = world.open_small(self.folder)
        self.other = world.open_small(self.folder)

    @rule(batch=batches)
    def put(self, batch: list[bytes]) -> None:
        for data in batch:
            self.loose[self.store.put(data)] = data

    @rule(batch=batches)
    def put_and_sync(self, batch: list[bytes]) -> None:
        self.put(batch)
        self.sync()

    @rule()
    def sync(self) -> None:
        self.store.sync()
        self.durable |= self.loose
        self.note_sizes()

    def note_sizes(self) -> None:
        """What the packs have now is durable, and nothing else is loose."""
        self.loose = {}
        self.sizes = {path.name: path.stat().st_size for path in self.folder.glob("*.pack")}

    @rule(batch=batches)
    def bulk(self, batch: list[bytes]) -> None:
        self.sync()
        writer = PartWriter(self.folder, self.store.reserve(40), world.PACK_BYTES_MAX)
        names = {writer.put(data): data for data in batch}
        self.store.adopt(writer.finish())
        self.durable |= names
        self.sync()

    @rule()
    def another_writes_from_now_on(self) -> None:
        self.store, self.other = self.other, self.store
        self.store.begin()
        self.loose = {}

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = world.open_small(self.folder)
        self.loose = {}

    @rule(chance=st.randoms(use_true_random=False), thorough=st.booleans())
    def sweep(self, chance: object, thorough: bool) -> None:
        self.sync()
        names = sorted(self.durable)
        live = {name for name in names if chance.random() < 0.6}  # type: ignore[attr-defined]
        self.store.sweep(live, thorough=thorough)
        self.durable = {name: self.durable[name] for name in live}
        self.note_sizes()

    @rule(cut=st.floats(0, 1), log_cut=st.floats(0, 1), part=st.binary(max_size=30))
    def lose_the_power(self, cut: float, log_cut: float, part: bytes) -> None:
        """Go on with a copy that has the durable bytes, some of the others, and any part of the log."""
        self.close()
        lost, self.generation = self.folder, self.generation + 1
        shutil.copytree(lost, self.folder)
        for path in self.folder.glob("*.pack"):
            size, end = path.stat().st_size, self.sizes.get(path.name, 0)
            with path.open("r+b") as file:
                file.truncate(end + int((size - end) * cut))
                file.seek(0, 2)
                file.write(part)
        for path in self.folder.glob("*.log"):
            with path.open("r+b") as file:
                file.truncate(int(path.stat().st_size * log_cut))
        self.open()
        self.note_sizes()

    @precondition(lambda self: self.durable)
    @rule(data=st.data())
    def read_one(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.durable)))
        assert self.store.get(name) == self.other.get(name) == self.durable[name]

    @invariant()
    def everything_is_there(self) -> None:
        if self.generation or hasattr(self, "store"):
            assert self.store.missing([*self.durable, *self.loose]) == set()
            assert self.other.missing(self.durable) == set()
            assert dict(self.store.get_many(self.durable)) == self.durable
            assert not self.store.has(name_of(b"never stored"))

    def close(self) -> None:
        self.store.close()
        self.other.close()

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            store = PackStore(self.folder)
            store.begin()
            assert [store.get(name) for name in self.durable] == [*self.durable.values()]
            assert list(store.check(deep=True)) == []
            store.close()
            self.other.close()
        shutil.rmtree(self.home)


TestModel = PackStoreAgainstADict.TestCase
TestModel.settings = settings(stateful_step_count=30, deadline=None)
TestModel.pytestmark = pytest.mark.timeout(900)  # type: ignore[attr-defined]
