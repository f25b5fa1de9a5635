"""Calls at once: tasks of a loop, threads, and what is cancelled or still at work when the run fails."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import takeback
from takeback.core.lifecycle import Life
from takeback.core.rollback import Verdict
from takeback.errors import RunBusy
from tests.runs import tools
from tests.runs.scene import Scene, items, made
from tests.runs.service import Refused, ask

MANY = [f"item-{n}" for n in range(8)]


def quiet(scene: Scene) -> None:
    assert scene.tb.history.open_actions() == []
    assert scene.tb.history.open_runs() == []


async def all_of(scene: Scene, items: list[str], key: str = "", **options: Any) -> Any:
    async with scene.tb.run("many", key=key, **options) as run, run.step("book"):
        scene.human("plan", "new")
        run.memory["wanted"] = items
        return await asyncio.gather(*(run.call(tools.book_async, item) for item in items))


@pytest.mark.parametrize("granularity", ["action", "step", "run"])
def test_gathered(scene: Scene, granularity: str) -> None:
    booked = asyncio.run(all_of(scene, MANY, "K", checkpoint=granularity))
    assert [booking["item"] for booking in booked] == MANY and items() == dict.fromkeys(MANY, 1)
    # In another order it is the same intent.
    assert asyncio.run(all_of(scene, MANY[::-1], "K")) == booked[::-1]
    assert all(made(item) == 1 for item in MANY)
    (id,) = scene.tb.history.runs
    assert scene.tb.undo(id).verdict is Verdict.CLEAN
    assert items() == {} and scene.read("plan") == "old"
    quiet(scene)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("granularity", ["action", "step"])
def test_one_of_them_fails(scene: Scene, when: str, granularity: str) -> None:
    """The others are still at work when it does. What they book then is taken back too."""
    before = scene.look()
    ask("fail", operation="book", item=MANY[3], when=when)
    for _ in range(3):
        with pytest.raises(Refused):
            asyncio.run(all_of(scene, MANY, checkpoint=granularity))
        assert before.residue(scene.look()) == []
    quiet(scene)


async def slowly(item: str) -> Any:
    started.set()
    await asyncio.sleep(0.05)
    booked = tools._book(item)
    await asyncio.sleep(0.05)
    return booked


started = threading.Event()
book_slowly = takeback.action(undo=tools.cancel, check=tools.find)(slowly)


def test_the_others_are_waited_for(scene: Scene) -> None:
    async def plan() -> None:
        async with scene.tb.run("wait") as run:
            task = asyncio.create_task(run.call(book_slowly, "room"))
            await asyncio.sleep(0.01)
            assert not task.done()
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        asyncio.run(plan())
    assert made("room") == 1 and items() == {}
    quiet(scene)


@pytest.mark.parametrize("after_s", [0, 0.001, 0.004, 0.016, 0.03, 0.07, 0.11, 0.13])
def test_cancelled_at_any_moment(scene: Scene, after_s: float) -> None:
    """A timeout strikes somewhere: in the beginning of the run, of a step or a call, in it, or in the rollback."""

    async def plan() -> None:
        async with asyncio.timeout(after_s), scene.tb.run("timeout") as run, run.step("one"):
            scene.human("plan", "new")
            await run.call(book_slowly, "room")
            await run.call(book_slowly, "car")

    before = scene.look()
    with pytest.raises(TimeoutError):
        asyncio.run(plan())
    assert before.residue(scene.look()) == []
    quiet(scene)
    assert all(run.life is Life.FAILED for run in scene.tb.history.runs.values())


# Threads


@pytest.mark.parametrize("granularity", ["action", "step"])
def test_threads(scene: Scene, granularity: str) -> None:
    def plan(wanted: list[str]) -> list[Any]:
        with scene.tb.run("threads", key="K", checkpoint=granularity) as run:

            def one(item: str) -> Any:
                with run.step(f"step {item}"):
                    scene.human(item, "made")
                    run.memory[item] = {"deep": [item]}
                    assert run.memory[item] == {"deep": [item]}
                    return run.call(tools.book, item)

            with ThreadPoolExecutor(len(wanted)) as pool:
                return list(pool.map(one, wanted))

    before = scene.look()
    booked = plan(MANY)
    assert items() == dict.fromkeys(MANY, 1)
    assert plan(MANY[::-1]) == booked[::-1] and all(made(item) == 1 for item in MANY)
    (id,) = scene.tb.history.runs
    assert sorted(scene.memories()[id]) == MANY
    assert scene.tb.undo(id).verdict is Verdict.CLEAN
    assert before.residue(scene.look()) == [] and scene.memories()[id] == {}
    quiet(scene)


def test_one_explicit_key_in_many_threads(scene: Scene) -> None:
    with scene.tb.run("threads") as run, ThreadPoolExecutor(8) as pool:
        booked = list(pool.map(lambda _: run.call(tools.book, "room", key="K"), range(8)))
    assert made("room") == 1 and all(booking == booked[0] for booking in booked)


def test_one_explicit_key_in_many_tasks(scene: Scene) -> None:
    async def plan() -> list[Any]:
        async with scene.tb.run("tasks") as run:
            return await asyncio.gather(*(run.call(tools.book_async, "room", key="K") for _ in range(8)))

    booked = asyncio.run(plan())
    assert made("room") == 1 and all(booking == booked[0] for booking in booked)


def test_a_thread_that_does_not_end(scene: Scene) -> None:
    """Neither committed nor taken back under it, and said so; afterwards it can be taken back."""
    go_on = threading.Event()

    @takeback.action(undo=tools.cancel, check=tools.find)
    def stuck(item: str) -> Any:
        go_on.wait(60)
        return tools._book(item)

    with pytest.raises(RunBusy, match="still at work"), scene.tb.run("stuck", wait_s=0.1) as run:
        thread = threading.Thread(target=lambda: run.call(stuck, "room"))
        thread.start()
        while not [a for a in scene.tb.history.open_actions() if a.as_tool.key]:
            pass
    go_on.set()
    thread.join()
    assert items() == {"room": 1} and scene.tb.history.runs[run.id].life is Life.HANDED_OVER
    assert scene.tb.undo(run.id).verdict is Verdict.CLEAN
    assert items() == {}


def test_two_agents_in_two_threads(scene: Scene) -> None:
    """Two runs beside each other: one fails and is taken back, the other keeps what it did."""
    both = threading.Barrier(2)

    def agent(name: str, *, fails: bool) -> None:
        with scene.tb.run(name, actor=name) as run, run.step("work"):
            both.wait()
            run.call(tools.book, name)
            run.memory["me"] = name
            both.wait()
            if fails:
                raise ValueError(name)

    with ThreadPoolExecutor(2) as pool:
        bad, good = pool.submit(agent, "bad", fails=True), pool.submit(agent, "good", fails=False)
        assert isinstance(bad.exception(), ValueError)
        good.result()
    assert items() == {"good": 1}
    by_name = {run.began.name: run.id for run in scene.tb.history.runs.values()}
    assert scene.memories() == {by_name["bad"]: {}, by_name["good"]: {"me": "good"}}
    quiet(scene)


def test_memory_is_read_while_other_threads_write_it(scene: Scene) -> None:
    """A value that was there stays readable at every moment, and a reader gets a copy that does not change."""
    written = threading.Event()
    with scene.tb.run("memory") as run:
        run.memory["kept"] = "kept"

        def read() -> int:
            rounds = 0
            while not written.is_set():
                assert run.memory["kept"] == "kept"
                assert scene.tb.known_history.memory_of(run.id)["/kept"] == "kept"
                rounds += 1
            return rounds

        with ThreadPoolExecutor(2) as pool:
            readers = [pool.submit(read) for _ in range(2)]
            for n in range(40):
                run.memory["kept"] = "kept"
                run.memory[f"item-{n}"] = n
                del run.memory[f"item-{n}"]
            written.set()
            assert all(reader.result() > 0 for reader in readers)
    assert scene.memories() == {run.id: {"kept": "kept"}}
