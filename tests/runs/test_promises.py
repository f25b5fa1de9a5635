"""What cannot be promised is refused, or said: handlers nobody waits for, effects nobody guards, lost values."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from typing import Any

import pytest

import takeback
from takeback import Call
from takeback.core.rollback import Verdict
from takeback.engine.runs import recorder
from takeback.errors import RollbackIncomplete, UsageError
from takeback.system import crash_points
from takeback.testing.crash import child_environment
from tests.runs import tools
from tests.runs.scene import Scene, items

SECRET = "hunter22222"


class Failure(Exception):
    pass


async def cancel_later(call: Call) -> None:
    await asyncio.sleep(0)
    tools.cancel(call)


def promising(call: Call) -> Any:
    """Only returns something to wait for."""
    return cancel_later(call)


async def find_later(call: Call) -> Any:
    await asyncio.sleep(0)
    return tools.find(call)


async def breaks(call: Call) -> None:
    raise Failure


@takeback.action(undo=promising, check=find_later)
def promise(item: str) -> Any:
    return tools._book(item)


@takeback.action(undo=breaks)
def break_promise(item: str) -> Any:
    return tools._book(item)


@takeback.action(effect="transactional")
def transact() -> None:
    raise AssertionError


def cancel(call: Call) -> None:
    tools.cancel(call)


def find(call: Call) -> Any:
    return tools.find(call)


@takeback.action(undo=cancel, check=find)
def book(item: str, password: str) -> str:
    tools._book(item)
    return "x" * 40_000


def test_an_async_handler_is_awaited(scene: Scene) -> None:
    with pytest.raises(Failure), scene.tb.run("promise") as run:
        run.call(promise, "room")
        raise Failure
    assert items() == {}


def test_an_async_handler_is_awaited_inside_a_running_loop(scene: Scene) -> None:
    async def main() -> None:
        with scene.tb.run("promise") as run:
            here = run.checkpoint()
            run.call(promise, "room")
            run.rollback(to=here)

    asyncio.run(main())
    assert items() == {}


def test_an_async_handler_that_raises_has_failed(scene: Scene) -> None:
    run = scene.tb.run("promise")
    with pytest.raises(RollbackIncomplete) as caught, run:
        run.call(break_promise, "x")
        raise Failure
    (item,) = caught.value.report.items
    assert item.did == "failed" and "failed 3 times: Failure" in item.why


def test_a_call_is_no_transaction(scene: Scene) -> None:
    with (
        scene.tb.run("transaction") as run,
        pytest.raises(UsageError, match="transactional, which needs a transaction"),
    ):
        run.call(transact)


def clean_up(scene: Scene) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):  # it waits for the lock, as it should
        subprocess.run(
            [sys.executable, "-m", "takeback", "-C", str(scene.root), "gc"],
            env={**os.environ, **child_environment(), "TAKEBACK_HOME": str(scene.home)},
            capture_output=True,
            check=False,
            timeout=4,
        )


@pytest.mark.timeout(120)
@pytest.mark.parametrize("where", [recorder.BEFORE_RECORD, "put"])
def test_a_clean_up_leaves_values_that_are_about_to_be_recorded(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    run = scene.tb.run("clean-up")
    reach, close = crash_points.reach, recorder.Recorder.close

    def reached(point: str) -> None:
        if point == where:
            clean_up(scene)
        reach(point)

    def closing(self: Any, *args: Any, **kwargs: Any) -> None:
        if where == "put":
            clean_up(scene)
        close(self, *args, **kwargs)

    monkeypatch.setattr(crash_points, "reach", reached)
    monkeypatch.setattr(recorder.Recorder, "close", closing)
    with run:
        scene.human("made", "by the agent")
        run.call(book, "room", password=SECRET)
    monkeypatch.undo()
    monkeypatch.setenv("TAKEBACK_HOME", str(scene.home))
    action = next(a for a in scene.tb.history.actions.values() if a.name == "book")
    assert scene.tb.result(action) == "x" * 40_000
    scene.tb.undo(run.id)
    assert items() == {}
    assert scene.read("made") is None


def test_a_call_whose_values_are_lost_does_not_hold_up_the_rest(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = scene.tb.run("lost")
    lost = takeback.errors.ContentGone("it is gone")
    fetch = scene.tb.parts.calls._vault.fetch

    def fetched(kept: Any, full: str) -> Any:
        if full:
            raise lost
        return fetch(kept, full)

    with pytest.raises(RollbackIncomplete) as caught, run:
        scene.human("made", "by the agent")
        run.call(book, "room", password=SECRET)
        run.call(tools.book, "seat")
        monkeypatch.setattr(scene.tb.parts.calls._vault, "fetch", fetched)
        raise Failure
    assert caught.value.report.verdict is Verdict.PARTIAL
    assert scene.read("made") is None
    assert items() == {"room": 1}
    (left,) = [item for item in caught.value.report.items if not item.verified]
    assert "lost" in left.why
