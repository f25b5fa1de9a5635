"""The contract of the `LeaseStore` port, as a test suite that any implementation can run.

Say how to open yours, and pytest does the rest:

    class TestMyLeases(LeaseContract):
        def open(self, where: Path) -> Journal:
            return MyJournal(where / "journal")

The leases are those of the journal, `journal.leases`: an append can hold that one is still held.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from takeback.core.events import Outcome as Ended
from takeback.core.events import RunBegan, RunEnded
from takeback.core.leases import Blocked, Holder, Lease
from takeback.errors import LeaseLost
from takeback.ports.journal import Journal
from takeback.ports.leases import LeaseStore
from takeback.testing.of_journal import OfJournal

LONG_S = 600.0
SHORT_S = 0.05
ANN, BOB, EVE = Holder("r1", "ann"), Holder("r2", "bob"), Holder("r3", "eve")


class LeaseContract(OfJournal):
    """Subclass it, with a name that pytest collects."""

    @pytest.fixture
    def leases(self, journal: Journal) -> LeaseStore:
        return journal.leases

    # Having and not having

    def test_one_has_it_and_the_other_is_told_who(self, leases: LeaseStore) -> None:
        lease = taken(leases, "src", ANN)
        assert (lease.name, lease.holder, lease.ttl_us) == ("src", ANN, 600_000_000)
        assert 0 < lease.left_us <= lease.ttl_us
        found = leases.acquire("src", BOB, LONG_S)
        assert isinstance(found, Blocked)
        assert [(by.fence, by.holder) for by in found.by] == [(lease.fence, ANN)]
        assert [one.fence for one in leases.all()] == [lease.fence]

    @pytest.mark.parametrize("other", ["src", "src/a.py", "src/deep/b.py", "."])
    def test_a_folder_is_had_with_what_is_below_it(self, leases: LeaseStore, other: str) -> None:
        taken(leases, "src", ANN)
        assert isinstance(leases.acquire(other, BOB, LONG_S), Blocked)

    @pytest.mark.parametrize("other", ["sr", "src2", "docs/src", "/src", "SRC"])
    def test_what_only_looks_alike_is_free(self, leases: LeaseStore, other: str) -> None:
        taken(leases, "src", ANN)
        taken(leases, other, BOB)

    def test_ones_own_is_not_in_the_way(self, leases: LeaseStore) -> None:
        first = taken(leases, "src", ANN)
        again = leases.acquire("src/a.py", BOB, LONG_S, family={"r2", "r1"})
        assert isinstance(again, Lease) and again.fence > first.fence
        assert not again.ended
        assert leases.release([first.fence]) == {first.fence}
        assert isinstance(leases.acquire("src", EVE, LONG_S), Blocked)

    def test_what_is_let_go_is_free_and_its_number_does_not_come_again(self, leases: LeaseStore) -> None:
        fences = []
        for holder in (ANN, BOB, ANN):
            lease = taken(leases, "src", holder)
            fences.append(lease.fence)
            assert leases.release([lease.fence]) == {lease.fence}
            assert leases.release([lease.fence]) == frozenset()
        assert fences == sorted(set(fences))
        assert leases.all() == []

    # Time

    def test_what_has_run_out_goes_to_who_asks(self, leases: LeaseStore) -> None:
        old = taken(leases, "src", ANN, SHORT_S)
        time.sleep(2 * SHORT_S)
        new = taken(leases, "src", BOB)
        assert new.fence > old.fence
        assert [(one.fence, one.name, one.holder) for one in new.ended] == [(old.fence, "src", ANN)]
        assert [one.fence for one in leases.all()] == [new.fence]
        assert leases.renew([old.fence, new.fence]) == {new.fence}
        assert leases.release([old.fence]) == frozenset()

    def test_what_has_run_out_and_is_taken_in_part_is_found_by_who_takes_another_part(
        self, leases: LeaseStore
    ) -> None:
        old = taken(leases, "src", ANN, SHORT_S)
        time.sleep(2 * SHORT_S)
        parts = [taken(leases, name, BOB) for name in ("src/a.py", "src/b.py")]
        for part in parts:
            assert [(one.name, one.holder, one.since_us) for one in part.ended] == [
                ("src", ANN, old.since_us)
            ]
        assert leases.renew([old.fence]) == frozenset()
        listed = [(one.name, one.holder, one.is_live) for one in leases.all()]
        assert sorted(listed, key=lambda one: one[0]) == [
            ("src", ANN, False),
            ("src/a.py", BOB, True),
            ("src/b.py", BOB, True),
        ]
        leases.release([part.fence for part in parts])
        assert len(taken(leases, ".", EVE).ended) == 1
        assert [one.name for one in leases.all()] == ["."]

    def test_what_a_human_had_locked_is_over_with_its_time(self, leases: LeaseStore) -> None:
        taken(leases, "src", Holder(actor="ann", bound=False), SHORT_S)
        time.sleep(2 * SHORT_S)
        taken(leases, "src/a.py", BOB)
        assert [one.name for one in leases.all()] == ["src/a.py"]

    def test_what_has_run_out_and_nobody_wants_can_be_renewed(self, leases: LeaseStore) -> None:
        old = taken(leases, "src", ANN, SHORT_S)
        time.sleep(2 * SHORT_S)
        assert not leases.all()[0].is_live
        assert leases.renew([old.fence]) == {old.fence}
        assert leases.all()[0].is_live

    def test_renewed_it_lasts(self, leases: LeaseStore) -> None:
        lease = taken(leases, "src", ANN, 0.5)
        for _ in range(8):
            time.sleep(0.1)
            assert leases.renew([lease.fence]) == {lease.fence}
        assert isinstance(leases.acquire("src", BOB, LONG_S), Blocked)

    # Waiting

    def test_two_who_wait_for_each_other_and_the_younger_hears_of_it(self, leases: LeaseStore) -> None:
        taken(leases, "a", ANN)
        taken(leases, "b", BOB)
        older = waiting(leases, "b", ANN)
        assert older.cycle == ()
        younger = waiting(leases, "a", BOB)
        assert [(wait.holder.run, wait.name) for wait in younger.cycle] == [("r2", "a"), ("r1", "b")]
        assert waiting(leases, "b", ANN).cycle == ()  # the younger has given up

    def test_the_older_comes_last_and_the_younger_hears_of_it_when_it_looks_again(
        self, leases: LeaseStore
    ) -> None:
        taken(leases, "a", ANN)
        taken(leases, "b", BOB)
        assert waiting(leases, "a", BOB).cycle == ()
        assert waiting(leases, "b", ANN).cycle == ()
        assert len(waiting(leases, "a", BOB).cycle) == 2

    def test_three_in_a_round(self, leases: LeaseStore) -> None:
        for name, holder in (("a", ANN), ("b", BOB), ("c", EVE)):
            taken(leases, name, holder)
        assert waiting(leases, "b", ANN).cycle == ()
        assert waiting(leases, "c", BOB).cycle == ()
        found = waiting(leases, "a/below", EVE)
        assert {wait.holder.run for wait in found.cycle} == {"r1", "r2", "r3"}

    def test_who_does_not_wait_any_more_is_in_no_round(self, leases: LeaseStore) -> None:
        taken(leases, "a", ANN)
        taken(leases, "b", BOB)
        waiting(leases, "b", ANN)
        leases.forget("r1")
        assert waiting(leases, "a", BOB).cycle == ()

    def test_a_long_queue_is_no_round(self, leases: LeaseStore) -> None:
        taken(leases, "a", ANN)
        for holder in (BOB, EVE):
            assert waiting(leases, "a", holder).cycle == ()

    # Appends that hold it

    def test_an_append_is_refused_whose_lease_another_one_has(
        self, journal: Journal, leases: LeaseStore
    ) -> None:
        (began,) = journal.append([RunBegan("run")], stream="")
        lease = taken(leases, "src", ANN, SHORT_S)
        journal.append([RunEnded(Ended.DONE)], stream=began.id, fences=[lease.fence], key="k")
        time.sleep(2 * SHORT_S)
        journal.append([RunBegan("late, and nobody else came")], stream="", fences=[lease.fence])
        taken(leases, "src", BOB)
        before = journal.head()
        with pytest.raises(LeaseLost):
            journal.append([RunBegan("too late")], stream="", fences=[lease.fence])
        assert journal.head() == before
        again = journal.append([RunEnded(Ended.DONE)], stream=began.id, fences=[lease.fence], key="k")
        assert again[0].seq == 2  # what was written then

    def test_many_at_once_and_only_one_has_it(self, leases: LeaseStore) -> None:
        def attempt(number: int) -> int:
            found = leases.acquire("src", Holder(f"r{number}"), LONG_S)
            return found.fence if isinstance(found, Lease) else 0

        with ThreadPoolExecutor(8) as pool:
            got = list(filter(None, pool.map(attempt, range(1, 33))))
        assert len(got) == 1


def taken(leases: LeaseStore, name: str, holder: Holder, ttl_s: float = LONG_S) -> Lease:
    found = leases.acquire(name, holder, ttl_s, family={holder.run})
    assert isinstance(found, Lease)
    return found


def waiting(leases: LeaseStore, name: str, holder: Holder) -> Blocked:
    found = leases.acquire(name, holder, LONG_S, family={holder.run}, token=holder.run, wait_s=LONG_S)
    assert isinstance(found, Blocked)
    return found
