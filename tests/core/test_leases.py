"""Who may have which name, and who of those that wait for each other has to give up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.core.events import Process
from takeback.core.leases import (
    Blocked,
    Holder,
    Lease,
    Wait,
    covers,
    decide,
    in_the_way,
    overlap,
    remaining,
    stale,
)

HUMAN = Holder(actor="ann", process=Process(7, "1", "b", "h"))
names = st.lists(st.sampled_from(["a", "ab", "b"]), max_size=3).map(lambda parts: "/".join(parts) or ".")


def lease(name: str, run: str, *, fence: int = 1, left: int = 5, bound: bool = True) -> Lease:
    return Lease(fence, name, Holder(run, bound=bound), since_us=0, ttl_us=10, left_us=left)


def wait(name: str, run: str, *, left: int = 5, family: frozenset[str] = frozenset()) -> Wait:
    return Wait(f"token of {run}", name, Holder(run), family | {run}, left)


@pytest.mark.parametrize(
    "has, path, both",
    [
        ("src", "src", True),
        ("src", "src/a/b.py", True),
        ("src/a", "src", False),
        ("src", "srcs", False),
        (".", "src/a", True),
        (".", "/elsewhere", False),
        ("/elsewhere", "/elsewhere/x", True),
        ("/", "/x", True),
        ("/", "src", False),
    ],
)
def test_the_lease_of_a_folder_covers_what_lies_below(has: str, path: str, both: bool) -> None:
    assert covers(has, path) is both


@given(names, names)
def test_two_names_overlap_if_one_lies_in_the_other(one: str, other: str) -> None:
    first, second = ([] if name == "." else name.split("/") for name in (one, other))
    common = min(len(first), len(second))
    assert overlap(one, other) == (first[:common] == second[:common])
    assert overlap(one, other) == overlap(other, one)


def test_what_the_own_family_holds_is_not_in_the_way() -> None:
    mine, other, far = lease("src", "r1"), lease("src/a", "r2"), lease("docs", "r2")
    assert in_the_way([mine, other, far], "src/a/b", {"r1"}) == [other]
    assert in_the_way([mine, other, far], "src/a/b", {"r1", "r2"}) == []


def test_what_a_human_holds_is_in_the_way_of_everybody() -> None:
    held = Lease(1, "src", HUMAN, 0, 10, 5)
    assert in_the_way([held], "src", {""}) == [held]


def test_a_free_name_can_be_had_and_ends_what_ran_out() -> None:
    over = lease("src", "r1", left=0)
    assert decide([], [], wait("src", "r2")) == []
    assert decide([over, lease("docs", "r1")], [], wait("src", "r2")) == [over]


def test_a_lease_and_a_wait_live_to_their_last_moment() -> None:
    a, b = lease("a", "r1", left=1), lease("b", "r2", fence=2, left=1)
    found = decide([a, b], [wait("b", "r1", left=1)], wait("a", "r2"))
    assert isinstance(found, Blocked) and found.by == (a,) and len(found.cycle) == 2


def test_who_waits_for_itself_waits_for_nobody_else() -> None:
    held = Lease(1, "a", HUMAN, 0, 10, 5)
    noted, now = (Wait("t", "a", HUMAN, frozenset(), left) for left in (4, 5))
    assert decide([held], [noted], now) == Blocked((held,))


def test_one_live_lease_is_enough_to_block() -> None:
    over, live = lease("src/a", "r1", left=-1), lease("src/b", "r3", fence=2)
    assert decide([over, live], [], wait("src", "r2")) == Blocked((live,))


def test_who_waits_for_nobody_is_in_no_cycle() -> None:
    held = [lease("a", "r1"), lease("b", "r2", fence=2)]
    assert decide(held, [wait("c", "r1")], wait("a", "r2")) == Blocked((held[0],))


def test_neither_a_lease_nor_a_wait_that_ran_out_makes_a_cycle() -> None:
    a, b = lease("a", "r1"), lease("b", "r2", fence=2)
    assert decide([a, b], [wait("b", "r1", left=0)], wait("a", "r2")) == Blocked((a,))
    over = lease("b", "r2", fence=2, left=0)
    assert decide([a, over], [wait("b", "r1")], wait("a", "r2")) == Blocked((a,))


def test_a_cycle_of_others_is_not_of_who_waits_for_them() -> None:
    held = [lease("a", "r1"), lease("b", "r2", fence=2)]
    assert decide(held, [wait("b", "r1"), wait("a", "r2")], wait("a", "r9")) == Blocked((held[0],))


@given(st.permutations(range(1, 6)), st.integers(2, 5))
def test_of_those_in_a_cycle_just_the_youngest_is_told(order: list[int], size: int) -> None:
    runs = [f"r{n}" for n in order[:size]]
    held = [lease(f"of {run}", run, fence=n) for n, run in enumerate(runs, 1)]
    waits = [wait(f"of {runs[n - 1]}", run) for n, run in enumerate(runs)]
    told = {}
    for wanted in waits:
        found = decide(held, waits, wanted)
        assert isinstance(found, Blocked)
        if found.cycle:
            told[wanted.holder.run] = {one.holder.run for one in found.cycle}
    assert told == {f"r{max(order[:size])}": set(runs)}


def test_a_human_is_older_than_every_run() -> None:
    held = [Lease(1, "a", HUMAN, 0, 10, 5), lease("b", "r1", fence=2)]
    human = Wait("z, after every other token", "b", HUMAN, frozenset(), 5)
    assert decide(held, [wait("a", "r1")], human) == Blocked((held[1],))
    found = decide(held, [human], wait("a", "r1"))
    assert isinstance(found, Blocked) and found.cycle == (wait("a", "r1"), human)


def test_who_can_wait_for_one_thing_at_a_time() -> None:
    assert Holder("r1", process=HUMAN.process).node == Holder("r1").node
    assert Holder("r1", thread="1").node != Holder("r1", thread="2").node
    assert HUMAN.node == ("", "7")
    assert Holder().node == ("", "")


def test_stale_is_what_ran_out_and_ends_with_no_process() -> None:
    forgotten = lease("a", "", left=0, bound=False)
    others = [lease("b", "", left=0), lease("c", "", bound=False), lease("d", "r1", left=0, bound=False)]
    assert stale([forgotten, *others]) == [forgotten]
    assert Holder().bound, "unless somebody says otherwise, a lease ends with its process"


def test_what_remains_is_what_a_run_had_beyond_the_part_that_was_taken() -> None:
    whole, human = lease("src", "r1", left=0), lease("src", "", left=0)
    assert remaining([whole, human], "src/a.py") == [whole]
    assert remaining([whole, lease("src/a.py", "r2", left=0)], "src") == []
    assert remaining([whole], ".") == []
