"""A question has one answer, from outside; and the answer is for one call of one function."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import takeback
from takeback.core.entities import Approval
from takeback.core.events import ActionBegan
from takeback.core.lifecycle import Life
from takeback.errors import RefusedError, TakebackError, UsageError
from takeback.testing.crash import child_environment
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace
from tests.runs import tools
from tests.runs.scene import Scene, made


def another(scene: Scene) -> Workspace:
    return open_workspace(scene.root, home=scene.home, watching=False)


def waiting(tb: Workspace, count: int = 1) -> list[str]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if len(found := tb.approvals()) >= count:
            return [question.id for question in found]
        time.sleep(0.01)
    raise AssertionError("nobody asked")


def human(tb: Workspace, id: str, *, granted: bool) -> bool:
    """Somebody at a terminal of their own."""
    try:
        tb.parts.runs.answer(id, granted=granted, actor="human")
    except TakebackError:
        return False
    return True


def test_a_thread_of_the_asking_process_cannot_answer(scene: Scene) -> None:
    said: list[str] = []

    def sly() -> None:
        with another(scene) as tb:
            (id,) = waiting(tb)
            with pytest.raises(RefusedError, match="an agent cannot approve its own request"):
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
        append = one.parts.tracker.ledger.append

        def slowly(*given: Any, **options: Any) -> Any:
            later.append(pool.submit(human, two, id, granted=not first))
            looked.wait(0.3)
            return append(*given, **options)

        monkeypatch.setattr(one.parts.tracker.ledger, "append", slowly)
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


def test_an_approval_for_a_call_without_effect_is_used_up(scene: Scene) -> None:
    scene.human("takeback.toml", '[rules.effects]\nnone = "ask"\n')
    with another(scene) as tb, tb.run("look", approve=lambda question: True) as run:
        assert run.call(tools.add, 1, 2) == 3
        assert [a.life for a in tb.history.approvals.values()] == [Life.USED]


def of_module(name: str, text: str) -> Any:
    """A function `pay` of another module."""
    module: dict[str, Any] = {"__name__": name}
    exec(f"import takeback\n@takeback.action(effect='irreversible')\ndef pay(x): return {text!r}\n", module)
    return module["pay"]


def test_a_function_is_known_with_its_module(scene: Scene) -> None:
    """To the human who allows it, and by the key of its call."""
    sandbox, real = of_module("sandbox", "play money"), of_module("real", "money")
    asked: list[str] = []

    def decide(question: Approval) -> bool:
        asked.append(question.asked.payload)
        return True

    with scene.tb.run("pay", approve=decide) as run:
        assert [run.call(sandbox, 5), run.call(real, 5)] == ["play money", "money"]
        assert len(set(asked)) == 2
        assert run.call(sandbox, 5, key="z") == "play money"
        with pytest.raises(UsageError, match="the key 'z'"):
            run.call(real, 5, key="z")


def test_a_providers_key_is_of_one_workspace(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with open_workspace(tmp_path / "other", home=scene.home, watching=False) as other:
        for tb in (scene.tb, other):
            with tb.run("nightly", key="2026-11-16") as run:
                run.call(tools.book, "attic")
        found = [
            a.began.call_key
            for tb in (scene.tb, other)
            for a in tb.history.actions.values()
            if isinstance(a.began, ActionBegan) and a.name == "book"
        ]
    assert len(found) == len(set(found)) == 2


@takeback.action(volatile=("id",))
def order(item: dict[str, int], **more: Any) -> int:
    return item["id"]


def test_volatile_is_an_argument_and_not_what_is_in_another(scene: Scene) -> None:
    with scene.tb.run("order") as run:
        assert run.call(order, {"id": 1}, id="x", key="one") == 1
        assert run.call(order, {"id": 1}, id="y", key="one") == 1
        with pytest.raises(UsageError, match="other arguments"):
            run.call(order, {"id": 2}, id="x", key="one")
        assert run.call(order, {"id": 2}, id="x") == 2
        assert run.call(order, {"id": 3}, id="x") == 3


LIMITED = """
import os, sys, takeback
from pathlib import Path
from tests.runs import tools
with takeback.open(sys.argv[1], home=Path(sys.argv[2]), watching=False) as tb, tb.run("r", key="K") as run:
    for n in range(int(sys.argv[3])):
        run.call(tools.book, f"room {n}")
    os._exit(9)
"""


def test_a_limit_is_one_of_the_run(scene: Scene) -> None:
    """What was called before a crash counts."""
    scene.human("takeback.toml", "[rules.limits]\ncalls-per-tool = 2\n")
    words = [sys.executable, "-c", LIMITED, str(scene.root), str(scene.home)]
    first = subprocess.run([*words, "2"], env=child_environment(), check=False)
    again = subprocess.run(
        [*words, "3"], env=child_environment(), check=False, capture_output=True, text=True
    )
    assert first.returncode == 9
    assert again.returncode == 1 and "RefusedError" in again.stderr
    assert made("room 2") == 0


@takeback.action(effect="irreversible")
async def wire_async(n: int) -> int:
    return n


async def quick() -> int:
    return 1


def test_open_questions_do_not_stop_other_calls(scene: Scene) -> None:
    async def work() -> int:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        async with scene.tb.run("r", approval_wait_s=300) as run:
            asking = [asyncio.create_task(run.call(wire_async, n)) for n in range(4)]
            while len(waiting := scene.tb.approvals()) < 4:
                await asyncio.sleep(0.01)
            done: int = await asyncio.wait_for(run.call(quick), 60)
            for question in waiting:
                assert human(scene.tb, question.id, granted=True)
            answers: list[int] = await asyncio.gather(*asking)
            return done + sum(answers)

    assert asyncio.run(work()) == 7
