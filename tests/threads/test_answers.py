"""Answers of models: kept, so that a resumed thread makes the same calls under the same ids."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from takeback import UsageError
from takeback.core import events as e
from takeback.core import keys
from takeback.core.record import contents_named
from takeback.testing.forks import end, run, start
from tests.runs.scene import Scene, items, made
from tests.threads import desk
from tests.threads.desk import Model

QUESTION = [{"role": "user", "content": "book a room"}]


class Scripted:
    """A model that gives its calls another id each time it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> Any:
        self.asked += 1
        return {"tool": "book", "args": {"item": "room"}, "id": uuid.uuid4().hex}

    async def later(self) -> Any:
        await asyncio.sleep(0)
        return self()

    def pieces(self) -> Iterator[str]:
        self.asked += 1
        yield from ("a ", "room ", uuid.uuid4().hex)

    async def pieces_later(self) -> AsyncIterator[str]:
        for piece in self.pieces():
            yield piece


def loop(folder: Path) -> None:
    """One turn of an agent: the model wants a call, and it is made under the model's own id."""
    with desk.opened(folder) as tb, tb.thread(key="T") as thread, thread.turn("m1"):
        wanted = thread.answer(QUESTION, Scripted())
        desk.booked(thread, wanted["args"]["item"], call_id=wanted["id"])


@pytest.mark.parametrize("place", ["call-made", "call-ended"])
def test_killed_the_resumed_call_has_its_id_and_happens_once(scene: Scene, place: str) -> None:
    folder = scene.root.parent

    def kill(name: str) -> None:
        if name == place:
            os.kill(os.getpid(), 9)

    assert end(start(loop, folder, hook=kill, errors=folder / "errors")) == -9
    assert run(loop, folder, errors=folder / "errors") == 0, (folder / "errors").read_text()
    assert made("room") == 1 and items() == {"room": 1}


def test_an_answer_is_the_same_each_time(scene: Scene) -> None:
    model = Scripted()
    with scene.tb.thread(key="T") as thread, thread.turn("m1"):
        first, second = thread.answer(QUESTION, model), thread.answer(QUESTION, model)
    assert first != second and model.asked == 2
    with scene.tb.thread(key="T") as thread, thread.turn("m1") as turn:
        assert [thread.answer(QUESTION, model), thread.answer(QUESTION, model)] == [first, second]
        assert thread.answer([*QUESTION, {"role": "user", "content": "and now?"}], model) not in (
            first,
            second,
        )
        assert thread.actions(turn) == [] and thread.undelivered() == []
    assert model.asked == 3


def test_a_turn_taken_back_is_asked_again(scene: Scene) -> None:
    model = Scripted()
    with scene.tb.thread(key="T") as thread:
        with thread.turn("m1"):
            first = thread.answer(QUESTION, model)
        thread.rollback(to="m1")
        with thread.turn("m1"):
            assert thread.answer(QUESTION, model) != first


def test_an_answer_that_fails_is_not_kept(scene: Scene) -> None:
    def fail() -> Any:
        raise ConnectionError

    thread, model = scene.tb.thread(key="T"), Scripted()
    with thread.turn("m1"), pytest.raises(ConnectionError):
        thread.answer(QUESTION, fail)
    with thread.turn("m1"):
        assert thread.answer(QUESTION, model)
    with pytest.raises(UsageError, match="the answer is a object"):
        thread.answer("?", object)
    assert model.asked == 1


def test_an_answer_is_private(scene: Scene) -> None:
    thread = scene.tb.thread(key="T")
    thread.answer(QUESTION, lambda: "the launch code is 0000")
    assert "launch code" not in str([record.event for record in scene.tb.journal.read()])
    assert scene.tb.verify(deep=True) == []


def test_a_codec_is_for_answers_too(scene: Scene) -> None:
    thread = scene.tb.thread(
        key="T",
        encode=lambda v: {"model": v.text} if isinstance(v, Model) else v,
        decode=lambda v: Model(v["model"]) if isinstance(v, dict) and "model" in v else v,
    )
    made_now = Model("hello")
    first = thread.answer(QUESTION, lambda: made_now)
    assert first is not made_now and first.text == "hello", "the decoded record, the first time too"


def test_streams_are_kept_whole_or_not_at_all(scene: Scene) -> None:
    model = Scripted()
    with scene.tb.thread(key="T") as thread, thread.turn("m1"):
        for _ in thread.stream(QUESTION, model.pieces):
            break
    with scene.tb.thread(key="T") as thread, thread.turn("m1"):
        whole = list(thread.stream(QUESTION, model.pieces))
    assert model.asked == 2 and len(whole) == 3
    with scene.tb.thread(key="T") as thread, thread.turn("m1"):
        assert list(thread.stream(QUESTION, model.pieces)) == whole
    assert model.asked == 2


def test_async_answers(scene: Scene) -> None:
    model = Scripted()

    async def converse() -> Any:
        async with scene.tb.thread(key="T") as thread, thread.turn("m1"):
            return (
                await thread.aanswer(QUESTION, model.later),
                [piece async for piece in thread.astream("go on", model.pieces_later)],
            )

    first = asyncio.run(converse())
    assert asyncio.run(converse()) == first and model.asked == 2


def test_forgotten_content_takes_the_answers_that_quote_it_along(scene: Scene) -> None:
    secret = "correct horse battery staple"
    scene.human("secret", secret)
    scene.tb.save()
    model = Scripted()
    with scene.tb.thread(key="T") as thread, thread.turn("m1"):
        thread.answer(QUESTION, lambda: f"it says: {secret}")
    scene.human("secret", "nothing")
    scene.tb.forget(str(scene.root / "secret"))
    with scene.tb.thread(key="T") as thread, thread.turn("m1"):
        assert "tool" in thread.answer(QUESTION, model)
    assert model.asked == 1


def test_old_answers_are_not_kept(scene: Scene) -> None:
    thread = scene.tb.thread(key="T")
    thread.answer(QUESTION, Scripted())
    action = desk.begun(thread, "say", {"token": "hush"}, effect="none")
    action.end("x" * 40_000)
    records = list(scene.tb.journal.read())
    (answered,) = [r for r in records if isinstance(r.event, e.ActionNoted) and r.event.tool == e.ANSWER]
    every, later = contents_named(records), contents_named(records, answered.at_us + 1)
    assert every - later == {bytes.fromhex(answered.event.full)} and later  # type: ignore[union-attr]


ALIKE: list[tuple[Any, Any]] = [
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({"role": "user", "name": None, "tool_calls": []}, {"role": "user"}),
    ({"content": "x", "timestamp": 1, "usage": {"n": 3}}, {"content": "x", "timestamp": 2, "run_id": "r"}),
    ({"arguments": '{"n": 1, "m": [2]}'}, {"arguments": {"m": [2], "n": 1}}),
]
UNLIKE: list[tuple[Any, Any]] = [
    ({"role": "user", "content": "x"}, {"role": "system", "content": "x"}),
    ({"content": "x"}, {"content": "y"}),
    ({"tool_call_id": "a", "content": "x"}, {"tool_call_id": "b", "content": "x"}),
    ({"content": '{"n": 1}'}, {"content": {"n": 1}}),
    ({"arguments": "not { json"}, {"arguments": "not [ json"}),
    (["a", "b"], ["b", "a"]),
]


@pytest.mark.parametrize("one, other", ALIKE)
def test_questions_that_are_the_same(one: Any, other: Any) -> None:
    assert keys.intent_key("answer", keys.asked([one])) == keys.intent_key("answer", keys.asked([other]))


@pytest.mark.parametrize("one, other", UNLIKE)
def test_questions_that_are_not(one: Any, other: Any) -> None:
    assert keys.intent_key("answer", keys.asked(one)) != keys.intent_key("answer", keys.asked(other))
