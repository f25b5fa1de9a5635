"""Threads in async code: cancelled, closed early, in parallel; every end is recorded, and no loop is blocked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from typing import Any

import pytest

import takeback
from takeback import Action, Thread
from takeback.core.lifecycle import Life
from takeback.core.rollback import Verdict
from takeback.system import crash_points
from tests.runs.scene import Scene, items
from tests.threads import desk


async def abegun(thread: Thread, name: str, args: dict[str, Any], **options: Any) -> Action:
    found = await thread.abegin(name, args, **options)
    assert isinstance(found, Action), found
    return found


async def cancelled_after(action: Action, item: str) -> None:
    async with action:
        await asyncio.to_thread(desk.book, item)
        raise asyncio.CancelledError


def test_the_twins_do_the_same(scene: Scene) -> None:
    async def converse() -> None:
        async with scene.tb.thread(key="T") as thread, thread.turn("m1") as turn:
            action = await abegun(thread, "book", {"item": "room"}, declared=takeback.declared(desk.book))
            async with action:
                action.keep(await asyncio.to_thread(desk.book, "room"))
            assert action.outcome == "done" and action.turn == turn.id
            here = await thread.acheckpoint("here")
            later = await abegun(thread, "write", {}, effect="restorable")
            (scene.root / "later").write_text("x")
            await later.aend("written")
            assert [a.id for a in await thread.aundelivered()] == [action.id, later.id]
            await action.adelivered()
            await thread.adelivered()
            assert await thread.aundelivered() == [] and len(await thread.aactions(turn)) == 2
            await thread.arollback(to=here)
            assert scene.read("later") is None
            await thread.acommit()
        await thread.apause()

    asyncio.run(converse())
    assert items() == {"room": 1}


def test_a_cancelled_tool_is_cut_short_and_recorded(scene: Scene) -> None:
    async def converse() -> Action:
        async with scene.tb.thread(key="T") as thread, thread.turn("m1"):
            action = await abegun(thread, "book", {"item": "room"}, declared=takeback.declared(desk.book))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2), action:
                    await asyncio.sleep(60)
            booked = await abegun(thread, "book", {"item": "hall"}, declared=takeback.declared(desk.book))
            with pytest.raises(asyncio.CancelledError):
                await asyncio.create_task(cancelled_after(booked, "hall"))
            assert booked.outcome == "done" and booked.found
            return action

    assert asyncio.run(converse()).outcome == "cut-short"
    assert items() == {"hall": 1}


def test_a_cancelled_task_pauses_the_thread(scene: Scene) -> None:
    async def converse(begun: asyncio.Event) -> None:
        async with scene.tb.thread(key="T") as thread, thread.turn("m1"):
            desk.write(thread, scene.root / "one", "c1")
            begun.set()
            await asyncio.sleep(60)

    async def main() -> None:
        begun = asyncio.Event()
        task = asyncio.create_task(converse(begun))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert scene.read("one") == "by the agent"
    thread = scene.tb.thread(key="T")
    (step,) = scene.tb.history.runs[thread.id].steps.values()
    assert step.life is Life.OPEN
    assert thread.rollback().verdict is Verdict.CLEAN


def test_a_consumer_that_leaves_early_takes_nothing_back(scene: Scene) -> None:
    async def stream() -> AsyncGenerator[int]:
        async with scene.tb.thread(key="T") as thread, thread.turn("m1"):
            for n in range(3):
                action = await abegun(thread, "write", {"n": n}, call_id=str(n), effect="restorable")
                async with action:
                    (scene.root / f"f{n}").write_text("x")
                    yield n

    async def main() -> None:
        pieces = stream()
        async for n in pieces:
            if n == 1:
                break
        await pieces.aclose()

    asyncio.run(main())
    assert scene.read("f0") == "x" and scene.read("f1") == "x" and scene.read("f2") is None
    outcomes = [action.outcome for action in scene.tb.thread(key="T").actions()]
    assert outcomes == ["done", "cut-short"]


def test_parallel_calls(scene: Scene) -> None:
    async def one(thread: Thread, n: int) -> None:
        path = scene.root / f"f{n}"
        action = await abegun(thread, "write", {"path": str(path)}, effect="restorable")
        async with action:
            await asyncio.sleep(0)
            path.write_text(str(n))
            action.keep(n)
            assert takeback.current_call().kwargs == {"path": str(path)}

    async def main() -> list[Action]:
        async with scene.tb.thread(key="T") as thread, thread.turn("m1"):
            await asyncio.gather(*(one(thread, n) for n in range(5)))
            return await thread.aactions()

    actions = {action.arguments["path"][-2:]: action for action in asyncio.run(main())}
    assert len(actions) == 5
    assert scene.tb.undo(actions["f3"].id).verdict is Verdict.CLEAN
    assert [scene.read(f"f{n}") for n in range(5)] == ["0", "1", "2", None, "4"]


def test_a_question_is_awaited(scene: Scene) -> None:
    async def main() -> None:
        async with scene.tb.thread(key="T", approvals="host") as thread:
            asked = await thread.abegin("pay", {"item": "rent"}, call_id="p1", effect="irreversible")
            assert isinstance(asked, takeback.Ask)
            assert isinstance(await asked.awaited(0), takeback.Ask)
            waiting = asyncio.create_task(asked.awaited(60))
            await asyncio.to_thread(scene.tb.approve, asked.approval)
            paying = await waiting
            assert isinstance(paying, Action) and paying.outcome == "open"
            await paying.aend("paid")
            again = await thread.abegin("pay", {"item": "tax"}, call_id="p2", effect="irreversible")
            assert isinstance(again, takeback.Ask)
            assert isinstance(await again.arefuse("no", by="ann"), takeback.Denied)
            third = await thread.abegin("pay", {"item": "fee"}, call_id="p3", effect="irreversible")
            assert isinstance(third, takeback.Ask)
            granted = await third.agrant(by="ann")
            assert isinstance(granted, Action) and granted.outcome == "open"
            await granted.aend("paid")

    asyncio.run(main())


def test_a_turn_in_a_thread_that_does_not_inherit_the_context(scene: Scene) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def tool() -> str:
        with turn.here():
            return desk.write(thread, scene.root / "one").turn

    with scene.tb.thread(key="T") as thread, thread.turn("m1") as turn, ThreadPoolExecutor(1) as pool:
        assert pool.submit(tool).result() == turn.id
        assert pool.submit(lambda: desk.write(thread, scene.root / "two").turn).result() == ""


def test_no_event_loop_is_blocked_by_a_record(scene: Scene) -> None:
    """Every named place of the engine is before or after something durable: none is passed in the loop's thread."""
    passed: dict[str, set[int]] = {}

    def pass_by(name: str) -> None:
        passed.setdefault(name, set()).add(threading.get_ident())

    async def make() -> str:
        return "an answer"

    async def converse() -> None:
        async with scene.tb.thread(key="T", approvals="host") as thread, thread.turn("m1"):
            action = await abegun(
                thread, "book", {"item": "room"}, undo=desk.cancel_async, check=desk.find_async
            )
            async with action:
                action.keep(1)
            await thread.aremember("n", 1)
            await thread.adefer("command", ["true"], key="k")
            await thread.aanswer("why?", make)
            asked = await thread.abegin("pay", {}, call_id="p1", effect="irreversible")
            assert isinstance(asked, takeback.Ask)
            await asked.arefuse(by="ann")
            await thread.acheckpoint("here")
            await thread.acommit()
            await thread.arollback(to="m1")

    crash_points.set_hook(pass_by)
    try:
        asyncio.run(converse())
    finally:
        crash_points.set_hook(None)
    assert {"call-recorded", "call-ended", "checkpoint-taken", "rollback-ended"} <= set(passed)
    assert {name for name, idents in passed.items() if threading.get_ident() in idents} == set()
