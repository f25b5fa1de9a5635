"""Values that are only kinds of str, int, dict and list; and handlers that nobody would wait for."""

from __future__ import annotations

import enum
import json
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest

from takeback import Call, action
from takeback.core.entities import Approval
from takeback.errors import UsageError
from tests.runs.scene import Scene


class Word(str):
    def __str__(self) -> str:
        return "another text"


class Color(enum.StrEnum):
    RED = "red"


class Shade(str, enum.Enum):  # noqa: UP042  as older programs have it
    DARK = "dark"


class Level(enum.IntEnum):
    HIGH = 3


class Count(int):
    pass


class Ratio(float):
    pass


class Row(NamedTuple):
    name: str


class Bag(dict[str, Any]):
    pass


class Line(list[Any]):
    pass


VALUES = [
    (Word("text"), "text"),
    (Color.RED, "red"),
    (Shade.DARK, "dark"),
    (Level.HIGH, 3),
    (Count(7), 7),
    (Ratio(0.5), 0.5),
    (Row(Word("n")), ["n"]),
    (Bag({Word("k"): Word("v")}), {"k": "v"}),
    (OrderedDict(k=Color.RED), {"k": "red"}),
    (defaultdict(Line, {"k": Line([Word("v")])}), {"k": ["v"]}),
]


@action(effect="none")
def echo(value: Any) -> Any:
    return value


@pytest.mark.parametrize("value, kept", VALUES, ids=[type(value).__name__ for value, _ in VALUES])
def test_a_kind_of_a_json_value_is_kept_as_that_value(scene: Scene, value: Any, kept: Any) -> None:
    def attempt() -> tuple[str, Any]:
        with scene.tb.run("values", key="values") as run:
            run.memory["value"] = value
            run.memory[Word("word")] = [value]
            assert run.memory["value"] == kept and run.memory["word"] == [kept]
            return run.id, run.call(echo, value, key="echo")

    id, found = attempt()
    assert found == value
    assert scene.memories()[id] == {"value": kept, "word": [kept]}
    _, found = attempt()  # from the record
    assert json.dumps(found) == json.dumps(kept)


def test_names_and_keys_may_be_kinds_of_text(scene: Scene) -> None:
    with scene.tb.run(Word("run"), key=Word("key"), actor=Word("me"), ref=Word("r")) as run:
        with run.step(Word("step")):
            run.call(echo, 1, key=Word("call"))
        begun = run.begin(Word("tool"), {Word("path"): Color.RED}, call_id=Word("1"), ref=Word("r"))
        run.action("1").end(Word("result"))
        run.defer("command", [Word("true")], key=Word("intent"), order=Word("order"))
        run.checkpoint(Word("here"))
    assert begun is not None
    assert scene.tb.history.runs[run.id].began.name == "run"
    scene.tb.save(Word("message"))
    with scene.tb.recording(Word("recorded"), actor=Word("me")):
        pass
    again = [record.event for record in scene.tb.journal.read()]
    assert "another text" not in str(again)


def bit_by_bit(call: Call) -> Iterator[None]:
    """Nothing of it runs until somebody asks for the first bit."""
    yield


def plainly(call: Call) -> None: ...


@pytest.mark.parametrize("handler", [bit_by_bit, partial(bit_by_bit)])
@pytest.mark.parametrize("role", ["undo", "check"])
def test_a_handler_that_would_not_run_is_refused_where_it_is_declared(
    scene: Scene, handler: Callable[[Call], object], role: str
) -> None:
    handlers: dict[str, Any] = {"undo": plainly, role: handler}
    with scene.tb.run("declaring") as run:
        with pytest.raises(UsageError, match=f"the {role} handler") as caught:
            run.begin("book", {}, call_id="1", **handlers)
        assert "plain function" in caught.value.hint
        with pytest.raises(UsageError, match=f"the {role} handler"):
            action(**handlers)(echo)
    assert [a.name for a in scene.tb.history.actions.values()] == ["declaring"]


def test_an_answer_that_nobody_waits_for_is_no_yes(scene: Scene) -> None:
    async def approve(approval: Approval) -> bool:
        return False

    async def holds() -> bool:
        return False

    with pytest.raises(UsageError, match="approve"):
        scene.tb.run("asking", approve=approve)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="approve"):
        scene.tb.session("asking", key="k", approve=approve)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="invariant"):
        scene.tb.run("holding", invariants=[holds])
    assert scene.tb.history.runs == {}


@pytest.mark.parametrize("key", [1, Level.HIGH, None, b"k", ("a",)])
def test_a_key_of_the_memory_that_is_no_text_is_wrong_use(scene: Scene, key: Any) -> None:
    with scene.tb.run("keys") as run:
        run.memory["inside"] = {}
        for memory in (run.memory, run.memory["inside"]):
            with pytest.raises(UsageError, match="keys of the memory are strings"):
                memory[key] = 1
        assert run.memory == {"inside": {}}


def test_what_setdefault_returns_is_the_memory_itself(scene: Scene) -> None:
    with scene.tb.run("defaults") as run:
        run.memory.setdefault("done", []).append("www")
        run.memory.setdefault("done", []).append("api")
        run.memory.setdefault("deep", {}).setdefault("in", {})["side"] = 1
        run.memory["rows"] = [{}]
        run.memory["rows"][0].setdefault("cells", []).append(7)
        assert run.memory.setdefault("done") == ["www", "api"]
        assert run.memory.setdefault("nothing") is None
    kept = {"done": ["www", "api"], "deep": {"in": {"side": 1}}, "rows": [{"cells": [7]}], "nothing": None}
    assert scene.memories()[run.id] == kept


FOUND: list[Any] = []


def found(call: Call) -> Any:
    return FOUND[0]


@action(undo=plainly, check=found)
def breaks() -> None:
    raise ConnectionError("it happened, and its answer was lost")


@pytest.mark.parametrize("value, kept", VALUES, ids=[type(value).__name__ for value, _ in VALUES])
def test_what_a_check_returns_is_kept_as_the_value_that_it_holds(scene: Scene, value: Any, kept: Any) -> None:
    FOUND[:] = [value]
    with scene.tb.run("checked", key="checked") as run, pytest.raises(ConnectionError):
        run.call(breaks)
    with scene.tb.run("checked", key="checked") as run:
        assert json.dumps(run.call(breaks)) == json.dumps(kept)
