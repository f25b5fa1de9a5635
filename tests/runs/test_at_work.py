"""One run, its threads, its tasks and its forks: nothing is taken back under a call, and nothing waits for itself."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from typing import Any

import pytest

from takeback.core.lifecycle import Life
from takeback.core.rollback import Verdict
from takeback.errors import RunBusy, UsageError
from tests.runs import tools
from tests.runs.scene import Scene, items, made


def test_nothing_is_taken_back_under_a_call_at_work(scene: Scene) -> None:
    began, go_on = threading.Event(), threading.Event()

    def slowly() -> None:
        began.set()
        assert go_on.wait(60)
        run.call(tools.book, "room")

    run = scene.tb.run("threads")
    with run:
        with run.step("s") as step:
            context = contextvars.copy_context()
            thread = threading.Thread(target=lambda: context.run(run.call, slowly))
            thread.start()
            assert began.wait(60)
            assert run.rollback(to=step, preview=True).preview
            with pytest.raises(RunBusy, match="nothing was taken back"):
                run.rollback(to=step)
            go_on.set()
            thread.join()
            assert items() == {"room": 1}
        assert run.rollback(to=step).verdict is Verdict.UNKNOWN, "nobody declared what `slowly` does"
        assert items() == {}


def test_nothing_is_taken_back_under_a_task_at_work(scene: Scene) -> None:
    async def main() -> None:
        began, go_on = asyncio.Event(), asyncio.Event()

        async def slowly() -> None:
            began.set()
            await go_on.wait()

        async with scene.tb.run("tasks") as run, run.step("s") as step:
            task = asyncio.ensure_future(run.call(slowly))
            await began.wait()
            with pytest.raises(RunBusy):
                run.rollback(to=step)
            go_on.set()
            await task

    asyncio.run(main())


def test_a_call_may_take_back_what_was_before_it(scene: Scene) -> None:
    with scene.tb.run("replanning") as run:
        point = run.checkpoint()
        run.call(tools.book, "room")
        assert run.call(lambda: run.rollback(to=point).verdict.value, effect="restorable") == "clean"
    assert items() == {}


def test_a_call_does_not_wait_for_itself(scene: Scene) -> None:
    async def inner() -> None:
        raise AssertionError

    async def outer() -> None:
        await run.call(inner, key="j")

    with scene.tb.run("nested") as run:
        with pytest.raises(UsageError, match="wait for itself"):
            run.call(lambda: run.call(lambda: 1, key="k"), key="k")
        with pytest.raises(UsageError, match="wait for itself"):
            asyncio.run(run.call(outer, key="j"))


def test_a_fork_that_leaves_takes_nothing_back(scene: Scene) -> None:
    with scene.tb.run("forking") as run:
        run.call(tools.book, "room")
        child = -1
        try:
            with run.step("s") as step:
                child = os.fork()
                if not child:
                    run.__exit__(SystemExit, SystemExit(), None)
                    raise SystemExit
                os.waitpid(child, 0)
        finally:
            if not child:
                os._exit(0)
        assert scene.tb.history.runs[run.id].steps[step.id].life is Life.DONE
    assert items() == {"room": 1}
    assert scene.tb.history.runs[run.id].life is Life.DONE


def test_a_fork_is_not_the_run(scene: Scene) -> None:
    refused = 7
    with scene.tb.run("forking", key="k") as run:
        child = os.fork()
        if not child:
            # Whatever goes wrong here must not come back into the test.
            code = 1
            try:
                counted = 0
                uses: list[Any] = [
                    lambda: run.call(tools.book, "room", key="room"),
                    lambda: run.call(tools.book_async, "room").send(None),
                    lambda: run.step("s").__enter__(),
                    run.checkpoint,
                    lambda: run.rollback(to="a1"),
                    lambda: run.memory.__setitem__("a", 1),
                    lambda: run.__exit__(None, None, None),
                ]
                for use in uses:
                    try:
                        use()
                    except UsageError as error:
                        counted += "fork" in error.message
                code = counted
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == refused
        run.call(tools.book, "room", key="room")
    assert made("room") == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": 5},
        {"name": "\ud800"},
        {"name": "x", "key": 7},
        {"name": "x", "wait_s": "a"},
        {"name": "x", "wait_s": float("nan")},
        {"name": "x", "approval_wait_s": None},
        {"name": "x", "on_conflict": "zz"},
    ],
)
def test_a_run_that_makes_no_sense(scene: Scene, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        scene.tb.run(**wrong)


def test_bad_input_is_named(scene: Scene) -> None:
    itself: list[Any] = []
    itself.append(itself)
    with scene.tb.run("bad") as run:
        point = run.checkpoint()
        for to in (None, 5, ["a1"], "nothing"):
            with pytest.raises(UsageError):
                run.rollback(to=to)
        with pytest.raises(UsageError, match="not a choice"):
            run.rollback(to=point, on_conflict="zz")
        with pytest.raises(UsageError):
            run.call(tools.add, 1, 2, key=5)  # type: ignore[arg-type]
        with pytest.raises(UsageError):
            run.step("\ud800")
        with pytest.raises(UsageError, match="contains itself"):
            run.memory["a"] = itself
