"""Leases against a model that is nothing but a list: whatever is done in whatever order, they agree."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from takeback.core.leases import Blocked, Holder, Lease
from takeback.storage.journal.leases import StoredLeases
from takeback.storage.journal.sqlite.journal import SqliteJournal
from takeback.storage.journal.sqlite.lease_table import SqliteLeaseTable
from takeback.system.clock import BootTime

NAMES = st.sampled_from(["a", "a/b", "a/b/c", "ab", "d", "."])
RUNS = st.sampled_from(["r1", "r2", "r3"])


class Machine(RuleBasedStateMachine):
    fences = Bundle("fences")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.now = 1
        self.journal = SqliteJournal(Path(self.folder.name) / "journal.db")
        self.leases = StoredLeases(
            self.journal, SqliteLeaseTable(lambda: BootTime("boot", self.now)), lambda: 0
        )
        self.model: dict[int, tuple[str, str, int, int]] = {}
        self.last = 0

    @rule(target=fences, name=NAMES, run=RUNS, ttl=st.integers(1, 5))
    def acquire(self, name: str, run: str, ttl: int) -> object:
        found = self.leases.acquire(name, Holder(run), ttl, family={run})
        near = {f: m for f, m in self.model.items() if m[1] != run and _overlap(m[0], name)}
        if any(until > self.now for _, _, _, until in near.values()):
            assert isinstance(found, Blocked)
            assert {by.fence for by in found.by} == {f for f, m in near.items() if m[3] > self.now}
            return multiple()
        assert isinstance(found, Lease)
        for fence in near:
            other, whose, _, _ = self.model.pop(fence)
            if not f"{other}/".startswith(f"{name}/") and name != ".":  # only a part of it was taken
                self.last += 1
                self.model[self.last] = (other, whose, 0, self.now)
        assert found.fence > self.last
        self.last = found.fence
        self.model[found.fence] = (name, run, ttl * 10**6, self.now + ttl * 10**6)
        return found.fence

    @rule(fence=fences)
    def renew(self, fence: int) -> None:
        assert self.leases.renew([fence]) == ({fence} & self.model.keys())
        if fence in self.model:
            name, run, ttl, _ = self.model[fence]
            self.model[fence] = (name, run, ttl, self.now + ttl)

    @rule(fence=fences)
    def release(self, fence: int) -> None:
        assert self.leases.release([fence]) == ({fence} & self.model.keys())
        self.model.pop(fence, None)

    @rule(seconds=st.integers(1, 3))
    def wait(self, seconds: int) -> None:
        self.now += seconds * 10**6

    @invariant()
    def agree(self) -> None:
        found = {one.fence: (one.name, one.holder.run, one.left_us) for one in self.leases.all()}
        assert found == {f: (name, run, until - self.now) for f, (name, run, _, until) in self.model.items()}

    @invariant()
    def never_two(self) -> None:
        live = [one for one in self.leases.all() if one.is_live]
        for one in live:
            for other in live:
                assert one.holder == other.holder or not _overlap(one.name, other.name)

    def teardown(self) -> None:
        self.journal.close()
        self.folder.cleanup()


def _overlap(one: str, other: str) -> bool:
    """By the words of the paths, and not by how their text begins."""
    first, second = ([] if name == "." else name.split("/") for name in (one, other))
    shortest = min(len(first), len(second))
    return first[:shortest] == second[:shortest]


def test_leases() -> None:
    few = settings(max_examples=25, stateful_step_count=25, deadline=None)
    run_state_machine_as_test(Machine, settings=few)
