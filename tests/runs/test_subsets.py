"""Every subset of failing steps and of failing undo handlers, up to six steps.

A step that fails does so after its booking was made; the program goes on, and fails at the end. What can be taken
back is, whatever else cannot; what cannot is named, and finished when the handler works again.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from takeback.core.lifecycle import Life
from takeback.core.rollback import Verdict
from takeback.errors import HandedOver, RollbackIncomplete
from tests.runs import tools
from tests.runs.scene import Scene, items
from tests.runs.service import Refused, ask

ALL = bool(os.environ.get("TAKEBACK_TEST_ALL"))
MOST = 6

Subset = tuple[int, ...]


def subsets(steps: int) -> Iterator[Subset]:
    for size in range(steps + 1):
        yield from itertools.combinations(range(steps), size)


def cases(steps: int) -> list[tuple[Subset, Subset]]:
    """Which steps fail, and which undo handlers."""
    every = list(itertools.product(subsets(steps), subsets(steps)))
    return every if ALL or steps < 3 else every[:: len(every) // 12]


PARTS = [
    (steps, part) for steps in range(1, MOST + 1) for part in range(4 ** max(0, steps - 4) if ALL else 1)
]


class Failure(Exception):
    pass


def plan(scene: Scene, steps: int, failing: Subset, key: str) -> None:
    with scene.tb.run("plan", key=key) as run:
        for n in range(steps):
            try:
                with run.step(f"step {n}"):
                    scene.human(f"file-{n}", "made")
                    run.memory[f"key-{n}"] = n
                    run.call(tools.book, f"item-{n}")
            except Refused:
                assert n in failing
        raise Failure


def one_case(scene: Scene, steps: int, failing: Subset, stuck: Subset, key: str) -> None:
    before = scene.look()
    for n in failing:
        ask("fail", operation="book", item=f"item-{n}", when="after", times=1)
    for n in stuck:
        ask("fail", operation="cancel", item=f"item-{n}")
    with pytest.raises(RollbackIncomplete if stuck else Failure) as caught:
        plan(scene, steps, failing, key)
    (run,) = [run for run in scene.tb.history.runs.values() if run.began.key == key]
    left = {f"item-{n}": 1 for n in stuck}
    assert items() == left
    assert before.residue(scene.look()) == ([f"bookings were {{}} and are {left}"] if left else [])
    assert scene.tb.history.memory_of(run.id) == {}
    if not isinstance(caught.value, RollbackIncomplete):
        assert run.life is Life.FAILED
        return
    assert isinstance(caught.value.__cause__, Failure)
    assert run.life is Life.HANDED_OVER
    report = caught.value.report
    failed = [item for item in report.items if item.did == "failed"]
    assert report.verdict is Verdict.PARTIAL and len(failed) == len(stuck)
    assert all("cancel" in item.why and "out of order" in item.why for item in failed)
    with pytest.raises(HandedOver):
        scene.tb.run("plan", key=key).__enter__()
    ask("heal")
    assert scene.tb.undo(run.id).verdict is Verdict.CLEAN
    assert before.residue(scene.look()) == []
    assert scene.tb.history.runs[run.id].life is Life.STOPPED
    with scene.tb.run("plan", key=key) as again:
        assert again.id != run.id


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("steps, part", PARTS)
def test_subsets_of_failing_steps_and_handlers(scene: Scene, steps: int, part: int) -> None:
    parts = max(n for s, n in PARTS if s == steps) + 1
    for number, (failing, stuck) in enumerate(cases(steps)[part::parts]):
        ask("heal")
        one_case(scene, steps, failing, stuck, key=f"case {number}")


def test_a_handler_that_only_says_it_did_is_not_believed(scene: Scene) -> None:
    """It returns, but the check still finds the booking."""
    ask("fail", operation="cancel", item="*", when="lie")
    with pytest.raises(RollbackIncomplete, match="failed"):
        plan(scene, 1, (), "")
    assert items() == {"item-0": 1}
    ask("heal")
    assert scene.tb.undo("r2").verdict is Verdict.CLEAN
    assert items() == {}


def test_a_handler_that_could_not_be_checked_is_looked_at_again(scene: Scene) -> None:
    """It says that it did, nobody can look, and it is not true: the next undo must not take its word."""
    ask("fail", operation="cancel", item="*", when="lie")
    ask("fail", operation="find", item="*")
    with pytest.raises(RollbackIncomplete) as caught:
        plan(scene, 1, (), "")
    assert [i.did for i in caught.value.report.items if i.resource == "calls"] == ["unverifiable"]
    ask("heal")
    assert items() == {"item-0": 1}
    assert scene.tb.undo("r2").verdict is Verdict.CLEAN
    assert items() == {}
