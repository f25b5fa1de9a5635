"""A question has one answer, from outside; and the answer is for one call of one function."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from takeback.core.lifecycle import Life
from takeback.core.subjects import Approval
from takeback.errors import RefusedError, TakebackError
from takeback.opening import open_workspace
from takeback.workspace import Workspace
from tests.runs import tools
from tests.runs.scene import Scene, made


def another(scene: Scene) -> Workspace:
    return open_workspace(scene.root, home=scene.home, watching=False)


def waiting(tb: Workspace, count: int = 1) -> list[str]:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if len(found := tb.approvals()) >= count:
            return [question.id for question in found]
        time.sleep(0.01)
    raise AssertionError("nobody asked")


def human(tb: Workspace, id: str, *, granted: bool) -> bool:
    """Somebody at a terminal of their own."""
    try:
        tb.runs.answer(id, granted=granted, actor="human")
    except TakebackError:
        return False
    return True


def test_a_thread_of_the_asking_process_cannot_answer(scene: Scene) -> None:
    said: list[str] = []

    def sly() -> None:
        with another(scene) as tb:
            (id,) = waiting(tb)
            with pytest.raises(RefusedError, match="what asks cannot answer"):
                tb.approve(id)
            said.append(tb.deny(id, "no").life)

    thread = threading.Thread(target=sly)
    thread.start()
    with pytest.raises(RefusedError, match="no"), scene.tb.run("wire", approval_wait_s=60) as run:
        run.call(tools.wire, "100")
    thread.join()
    assert said == [Life.DENIED] and made("100") == 0


def test_the_first_answer_counts(scene: Scene) -> None:
    """However many answer at once, one of them is told that it did."""
    with another(scene) as one, another(scene) as two:

        def wire(item: str) -> None:
            with pytest.raises(RefusedError), scene.tb.run("wire", approval_wait_s=60) as run:
                run.call(tools.wire, item)

        with ThreadPoolExecutor(8) as pool:
            asking = [pool.submit(wire, str(n)) for n in range(8)]
            for id in waiting(scene.tb, 8):
                assert human(one, id, granted=False)
                assert not human(two, id, granted=True)
            for each in asking:
                each.result()
    assert not any(made(str(n)) for n in range(8))


@pytest.mark.parametrize("first", [True, False])
def test_answers_at_once(scene: Scene, first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another answer comes between the look at the question and the answer: it has to wait, and is too late."""
    with another(scene) as one, another(scene) as two, ThreadPoolExecutor(2) as pool:
        looked = threading.Event()
        later: list[Any] = []
        asked = pool.submit(_wire, scene)
        (id,) = waiting(scene.tb)
        append = one.tracker.ledger.append

        def slowly(*given: Any, **options: Any) -> Any:
            later.append(pool.submit(human, two, id, granted=not first))
            looked.wait(0.3)
            return append(*given, **options)

        monkeypatch.setattr(one.tracker.ledger, "append", slowly)
        assert human(one, id, granted=first)
        assert later[0].result() is False
        assert asked.result() is first
    assert made("100") == int(first)


def _wire(scene: Scene) -> bool:
    try:
        with scene.tb.run("wire", approval_wait_s=60) as run:
            run.call(tools.wire, "100")
    except RefusedError:
        return False
    return True


@pytest.mark.parametrize("granted", [True, False])
def test_a_callback_that_says_no_is_not_overruled(scene: Scene, granted: bool) -> None:
    """Nor is a human who said no by a callback that says yes."""

    def decide(question: Approval) -> bool:
        assert human(scene.tb, question.id, granted=granted)
        return not granted

    run = scene.tb.run("wire", approve=decide)
    with pytest.raises(RefusedError, match="denied"), run:
        run.call(tools.wire, "100")
    assert made("100") == 0
    assert [a.life for a in scene.tb.history.approvals.values()] == [Life.USED if granted else Life.DENIED]
