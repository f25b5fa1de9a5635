"""Whatever a plan did and wherever it failed: it is taken back, and the world is as independent eyes saw it before.

Each case is a generated plan over files, memory and calls to a real service, with one fault: before or after an
effect of the program, or in the service before its effect, after it, or after it without an answer.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import pytest

from takeback.core.rollback import Verdict
from takeback.engine.rollback.report import RollbackReport
from takeback.engine.runs.run import Run
from tests.runs.scenarios import GRANULARITIES, Failure, Fault, Play, Scenario, generate
from tests.runs.scene import Scene
from tests.runs.service import Refused, ask

ALL = bool(os.environ.get("TAKEBACK_TEST_ALL"))
BATCHES = range(40) if ALL else range(3)
SCENARIOS = 5 if ALL else 1

FAULTS = (Failure, Refused, ConnectionError)


def is_whole(scene: Scene, report: RollbackReport) -> bool:
    """Whether all was taken back and verified: `unknown` is said where, and only where, a call was not declared."""
    undeclared = {id for id in report.unknown if "write" in scene.tb.history.actions[id].name}
    if report.verdict is Verdict.UNKNOWN:
        return bool(report.unknown) and undeclared == set(report.unknown)
    return report.verdict in (Verdict.CLEAN, Verdict.NOTHING) and not report.unknown


def by_exception(play: Play, run: Run) -> RollbackReport | None:
    """The failure leaves the block."""
    with pytest.raises(FAULTS), run:
        play.perform(run)
    return run.report


def by_undo(play: Play, run: Run) -> RollbackReport | None:
    """The program gives up in peace, the run is committed, and somebody takes it back later."""
    with run:
        try:
            play.perform(run)
        except FAULTS:
            pass
    return play.scene.tb.undo(run.id)


def by_replanning(play: Play, run: Run) -> RollbackReport | None:
    """The program goes back to the beginning of a step, looks, and fails for good after that."""
    with pytest.raises(Failure), run:
        try:
            play.perform(run)
        except FAULTS:
            pass
        step, world, memory = play.chance.choice(play.starts)
        if run.options.checkpoint != "run":
            report = run.rollback(to=step)
            assert is_whole(play.scene, report), report
            assert world.residue(play.scene.look()) == []
            assert run.memory == memory
        with run.step("another way"):
            play.scene.human("another", "way")
        raise Failure
    return run.report


WAYS: tuple[Callable[[Play, Run], RollbackReport | None], ...] = (by_exception, by_undo, by_replanning)


class Outcome(NamedTuple):
    """What became of a case, without what is another in another workspace."""

    run: str
    left: str
    verdict: Verdict
    items: tuple[tuple[str, str, str, bool], ...]


def one_case(scene: Scene, scenario: Scenario, fault: Fault, number: int) -> Outcome:
    """Play one case; gives what became of it, and what was left behind."""
    way, granularity = WAYS[number % len(WAYS)], GRANULARITIES[number // 3 % len(GRANULARITIES)]
    before = scene.look()
    run = scene.tb.run(f"case {number}", checkpoint=granularity)
    play = Play(scene, scenario, fault, random.Random(number))
    report = way(play, run)
    ask("heal")
    residue = before.residue(scene.look())
    assert report is not None
    assert is_whole(scene, report), report
    left = f"{way.__name__} at {granularity}: {residue}, but: {report}" if residue else ""
    # The name of a call ends with its key, and that of a value of memory begins with its run.
    items = [(i.target.resource, i.target.name.split()[0], i.did, i.verified) for i in report.items]
    return Outcome(run.id, left, report.verdict, tuple(sorted(items)))


def play_batch(scene: Scene, batch: int) -> tuple[list[Outcome], Counter[str]]:
    chance = random.Random(f"oracle {batch}")
    outcomes: list[Outcome] = []
    count: Counter[str] = Counter()
    for _ in range(SCENARIOS):
        for n in range(chance.randint(0, 4)):  # the human's own, each time a little different
            scene.human(chance.choice(["plan", f"own-{n}", f"deep/own-{n}"]), f"{chance.random()}")
        scenario = generate(chance)
        for fault in scenario.faults():
            outcome = one_case(scene, scenario, fault, len(outcomes))
            assert outcome.left == "", f"{scenario} {fault}"
            outcomes.append(outcome)
            count[fault.kind] += 1
    memories = scene.memories()
    runs = [outcome.run for outcome in outcomes]
    assert {id: memories[id] for id in runs} == {id: {} for id in runs}
    return outcomes, count


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("batch", BATCHES)
def test_nothing_is_left_behind(
    scenes: Callable[[str], AbstractContextManager[Scene]], batch: int, record_property: Any
) -> None:
    """Whether the history is the fold of its journal, or asked of an index: the same becomes of every case."""
    with scenes("fold") as scene:
        folded, count = play_batch(scene, batch)
    with scenes("index") as scene:
        asked, _ = play_batch(scene, batch)
    # The ids of runs count records, and whether a look records the time of a folder depends on the clock's ticks.
    assert [one._replace(run="") for one in asked] == [one._replace(run="") for one in folded]
    record_property("cases", len(folded))
    print(f"batch {batch}: {len(folded)} cases, {dict(count)}")  # noqa: T201
