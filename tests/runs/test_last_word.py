"""What happened has the last word: whatever goes wrong after an effect, it is recorded and taken back."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest

import takeback
from takeback import ABSENT, Call
from takeback.core.lifecycle import Life
from takeback.core.rollback import Verdict
from takeback.core.values import DEEPEST, plain
from takeback.engine.gate.rules import name_in_rules
from takeback.engine.runs import recorder
from takeback.errors import HandedOver, RefusedError, RollbackIncomplete, UsageError
from takeback.system import crash_points
from tests.runs import tools
from tests.runs.scene import Scene, items, made

WORLD: list[str] = []
UNKEEPABLE: dict[str, Any] = {}


def take_away(call: Call) -> None:
    WORLD.remove(call.args[0])


def find(call: Call) -> Any:
    return {"item": call.args[0]} if call.args[0] in WORLD else ABSENT


@takeback.action(undo=take_away, check=find)
def put(kind: str) -> Any:
    WORLD.append(kind)
    return UNKEEPABLE.get(kind, kind)


@takeback.action(undo=take_away, check=find)
async def put_async(kind: str) -> Any:
    return put(kind)


@takeback.action(effect="irreversible")
def put_for_good(kind: str) -> Any:
    return put(kind)


@pytest.fixture(autouse=True)
def _empty_world() -> None:
    WORLD.clear()
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    itself: list[Any] = []
    itself.append(itself)
    UNKEEPABLE.update({"half": "caf\udce9", "in a key": {"\ud800": 1}, "deep": deep, "itself": itself})


@pytest.mark.parametrize("kind", ["half", "in a key", "deep", "itself"])
@pytest.mark.parametrize("function", [put, put_async])
def test_a_result_that_cannot_be_kept(scene: Scene, kind: str, function: Any) -> None:
    async def asynchronously() -> None:
        async with run:
            await run.call(put_async, kind)

    run = scene.tb.run("unkeepable", key="k")
    with pytest.raises(UsageError, match="returned"):
        if function is put_async:
            asyncio.run(asynchronously())
        else:
            with run:
                run.call(put, kind)
    assert WORLD == []
    assert run.report is not None and run.report.verdict is Verdict.CLEAN


def interrupting(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    reach = crash_points.reach

    def reached(point: str) -> None:
        if point == where:
            raise KeyboardInterrupt
        reach(point)

    monkeypatch.setattr(crash_points, "reach", reached)


@pytest.mark.parametrize("where", [recorder.RECORDED, recorder.MADE, recorder.ENDED])
@pytest.mark.parametrize("checkpoint", ["step", "action"])
def test_an_interrupt_around_the_effect(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, where: str, checkpoint: str
) -> None:
    run = scene.tb.run("interrupted", checkpoint=checkpoint)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt), run:
        interrupting(patched, where)
        run.call(tools.book, "room")
    assert items() == {}
    assert made("room") == (where != recorder.RECORDED)
    assert run.report is not None
    assert run.report.verdict is (Verdict.CLEAN if made("room") else Verdict.NOTHING)


def test_an_interrupt_that_nobody_can_judge_is_handed_over(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = scene.tb.run("interrupted", key="k")
    with monkeypatch.context() as patched, pytest.raises(RollbackIncomplete), run:
        interrupting(patched, recorder.RECORDED)
        run.call(tools.book_blindly, "room")
    assert scene.tb.history.runs[run.id].life is Life.HANDED_OVER
    with pytest.raises(HandedOver):
        scene.tb.run("interrupted", key="k").__enter__()


@pytest.mark.parametrize("where", [recorder.RECORDED, recorder.MADE, recorder.ENDED])
def test_a_run_that_outlives_an_interrupt_does_not_book_twice(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    with scene.tb.run("interrupted") as run:
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            interrupting(patched, where)
            run.call(tools.book, "room", key="room")
        run.call(tools.book, "room", key="room")
        assert made("room") == 1
    assert not scene.tb.history.open_actions()
    assert scene.tb.undo(run.id).verdict is Verdict.CLEAN
    assert items() == {}


def test_an_error_whose_words_cannot_be_kept(scene: Scene) -> None:
    run = scene.tb.run("unspeakable")
    with pytest.raises(FileNotFoundError), run, run.step("s"):
        run.call(tools.book, "room")
        raise FileNotFoundError("caf\udce9")
    assert items() == {}


def test_values_too_deep_to_be_kept() -> None:
    fits: Any = 1
    for _ in range(DEEPEST):
        fits = [fits]
    assert plain(fits) == fits
    with pytest.raises(UsageError, match=r"^what it gave contains itself"):
        plain([fits], "what it gave")


@takeback.action(effect="irreversible")
def for_good(item: str) -> None:
    WORLD.append(item)


class Sender:
    """A tool that is an object."""

    def __init__(self, to: str = "") -> None:
        if to:
            self.to = to

    @takeback.action(effect="irreversible")
    def __call__(self, item: str) -> None:
        WORLD.append(item)


@pytest.mark.parametrize(
    "function, args",
    [
        (functools.partial(for_good, "money"), ()),
        (functools.partial(functools.partial(for_good), item="money"), ()),
        (Sender(), ("money",)),
        (functools.partial(Sender(), "money"), ()),
    ],
)
def test_no_wrapping_loses_a_declaration(scene: Scene, function: Any, args: tuple[str, ...]) -> None:
    with pytest.raises(RefusedError), scene.tb.run("wrapped", autopilot=True) as run:
        run.call(function, *args)
    assert WORLD == []


def test_a_partial_is_taken_back(scene: Scene) -> None:
    run = scene.tb.run("wrapped")
    with pytest.raises(ZeroDivisionError), run:
        run.call(functools.partial(put, "x"))
        asyncio.run(run.call(functools.partial(put_async, "y")))
        assert WORLD == ["x", "y"]
        1 / 0  # noqa: B018
    assert WORLD == []
    assert run.report is not None and run.report.verdict is Verdict.CLEAN


@pytest.mark.parametrize("wrapped", [functools.partial(tools.add, 1), functools.partial(Sender(), "x")])
def test_rules_know_the_function_in_a_partial(wrapped: Any) -> None:
    inner = wrapped.func
    assert name_in_rules(wrapped) == name_in_rules(inner)
    assert ":" in name_in_rules(inner)


def test_partials_with_other_arguments_are_other_calls(scene: Scene) -> None:
    with pytest.raises(HandedOver), scene.tb.run("wrapped", key="k") as run:
        assert run.call(functools.partial(put, "a")) == "a"
        run.hand_over("wait")
    scene.tb.parts.runs.give_back(run.id, "human")
    with scene.tb.run("wrapped", key="k") as run:
        assert run.call(functools.partial(put, "b")) == "b"
        assert run.call(functools.partial(put, "a")) == "a"
    assert WORLD == ["a", "b"]


def test_objects_with_a_state_need_a_key(scene: Scene) -> None:
    with scene.tb.run("objects", approve=lambda _: True) as run:
        with pytest.raises(UsageError, match="state of its own"):
            run.call(Sender("somebody"), "x")
        assert WORLD == []
        run.call(Sender("somebody"), "x", key="to somebody")
        run.call(Sender(), "y")
    assert WORLD == ["x", "y"]
