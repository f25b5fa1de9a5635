"""The service fails at random, in bookings, cancellations and looks: no report says clean while the world differs."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from takeback.core.lifecycle import Life
from takeback.core.rollback import Verdict
from takeback.errors import HandedOver, RollbackIncomplete, TakebackError
from tests.runs import tools
from tests.runs.scene import Scene, items, made
from tests.runs.service import Refused, ask

ALL = bool(os.environ.get("TAKEBACK_TEST_ALL"))
BATCHES = range(20) if ALL else range(2)
CASES = 40 if ALL else 20


class Failure(Exception):
    pass


def troubled(chance: random.Random) -> None:
    """Each operation fails in its own way, once or a few times or for good; on some days more than on others."""
    rate = chance.choice([0.05, 0.3, 0.8])
    for operation, ways in (
        ("book", ["before", "after", "silent", "mute"]),
        ("cancel", ["before", "after", "silent", "lie"]),
        ("find", ["before", "silent"]),
    ):
        for n in range(4):
            way = chance.choice(ways)
            if chance.random() < rate:
                times = chance.choice([1, 2, 3, 4, 7, 10**9])
                ask("fail", operation=operation, item=f"item-{n}", when=way, times=times)


def one_case(scene: Scene, chance: random.Random, key: str) -> Verdict | None:
    before = scene.look()
    troubled(chance)
    patient = chance.random() < 0.3
    run = scene.tb.run("troubled", key=key, checkpoint=chance.choice(["step", "action", "run"]))
    with pytest.raises((Failure, RollbackIncomplete)) as caught, run:
        for n in range(4):
            try:
                with run.step(f"step {n}"):
                    scene.human(f"file-{n}", "made")
                    run.call(tools.book_patiently if patient else tools.book, f"item-{n}")
            except (Refused, ConnectionError):
                pass
        raise Failure
    residue = before.residue(scene.look())
    report = caught.value.report if isinstance(caught.value, RollbackIncomplete) else run.report
    clean = report is not None and report.verdict in (Verdict.CLEAN, Verdict.NOTHING)
    assert not (clean and residue), f"{report} but {residue}"
    # Whatever could not be done is done when the service works again; and every look says the same.
    ask("heal")
    if not clean:
        assert scene.tb.history.runs[run.id].life is Life.HANDED_OVER
        with pytest.raises(HandedOver):
            scene.tb.run("troubled", key=key).__enter__()
        assert scene.tb.undo(run.id).verdict in (Verdict.CLEAN, Verdict.NOTHING)
    assert before.residue(scene.look()) == []
    assert all(made(item) == 1 for item in items())
    return report.verdict if report else None


@pytest.mark.timeout(600)
@pytest.mark.parametrize("batch", BATCHES)
def test_no_report_says_clean_while_the_world_differs(
    scene: Scene, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("takeback.engine.runs.call.PAUSE_S", 0.0)
    chance = random.Random(f"honest {batch}")
    verdicts: Counter[Verdict | None] = Counter()
    for number in range(CASES):
        ask("reset")
        verdicts[one_case(scene, chance, f"case {number}")] += 1
    assert verdicts[Verdict.CLEAN] and verdicts[Verdict.PARTIAL], verdicts
    print(f"batch {batch}: {dict(verdicts)}")  # noqa: T201


@pytest.mark.timeout(600)
@pytest.mark.parametrize("batch", BATCHES)
def test_a_run_that_goes_on_in_spite_of_it_all_books_once(
    scene: Scene, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Handed over and given back until it is through: at no time is anything booked twice."""
    monkeypatch.setattr("takeback.engine.runs.call.PAUSE_S", 0.0)
    chance = random.Random(f"through {batch}")
    for number in range(CASES // 4):
        ask("reset")
        troubled(chance)
        for attempt in range(12):
            if attempt == 8:
                ask("heal")
            try:
                with scene.tb.run("through", key=f"case {number}") as run:
                    for n in range(4):
                        with run.step(f"step {n}"):
                            run.call(tools.book, f"item-{n}")
                break
            except (TakebackError, Refused, ConnectionError):
                assert all(count == 1 for count in items().values()), items()
                for handed in scene.tb.parts.runs.handovers():
                    scene.tb.parts.runs.give_back(handed.id, "human")
        else:
            raise AssertionError("it never came through")
        assert items() == {f"item-{n}": 1 for n in range(4)}
