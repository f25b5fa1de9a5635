"""A plan is read whole or refused with the step and the reason; its order is always the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.core import plan as plans
from takeback.core.events import Effect
from takeback.core.plan import Plan, PlannedStep, ResultReference, parse_plan
from takeback.errors import UsageError


def step(id: str, *after: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "tool": "shop.tools:write", **({"after": list(after)} if after else {}), **more}


def parsed(*steps: Any, **more: Any) -> Plan:
    return parse_plan(json.dumps({"name": "report", "steps": list(steps), **more}).encode(), "plan.json")


def wrong(*steps: Any, **more: Any) -> str:
    with pytest.raises(UsageError) as caught:
        parsed(*steps, **more)
    return caught.value.message


def order(plan: Plan) -> list[str]:
    return [found.id for found in plans.in_order(plan)]


def test_a_plan_is_read() -> None:
    text = {"$result": "find", "path": "/text"}
    plan = parsed(
        step("find", effect="none"),
        step("write", args={"path": "a.md", "text": text}, retries=2),
        key="K",
        tools={"mail": "shop.mail:send"},
        **{"$schema": "plan.schema.json"},
    )
    assert (plan.name, plan.key, plan.tools) == ("report", "K", {"mail": "shop.mail:send"})
    assert plan.steps[0].effect is Effect.NONE
    assert plan.steps[1].retries == 2
    assert plans.dependencies(plan.steps[1]) == ("find",)


@pytest.mark.parametrize(
    "data, said",
    [
        (b"", "is not JSON: Input data was truncated"),
        (b"{", "is not JSON"),
        (b'"\xff"', "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "Expected `object`, got `array`"),
        (b"{}", "missing required field `name`"),
        (b'{"name": "x", "steps": []}', "length >= 1"),
        (b'{"name": "x", "steps": {}}', "Expected `array`, got `object` - at `$.steps`"),
        (b'{"name": "x\\n", "steps": [{"id": "a", "tool": "b:c"}]}', "matching regex"),
        (b'{"name": "x", "more": 1}', "unknown field `more`"),
        (b'{"name": "x", "steps": [7]}', "step number 1: Expected `object`, got `int`"),
        (b'{"name": "x", "steps": [{"tool": "a:b"}]}', "step number 1: Object missing required field `id`"),
        (b" " * (plans.BYTES_MAX + 1), "a plan has at most"),
    ],
)
def test_what_is_no_plan(data: bytes, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_plan(data)
    assert said in caught.value.message


@pytest.mark.parametrize(
    "fault, said",
    [
        ({"retries": "2"}, "step mail: `retries`: Expected `int`, got `str`"),
        ({"retries": -1}, "step mail: `retries`: Expected `int` >= 0"),
        ({"retries": 101}, "step mail: `retries`: Expected `int` <= 100"),
        ({"args": []}, "step mail: `args`: Expected `object`, got `array`"),
        ({"effect": "safe"}, "step mail: `effect`: Invalid enum value 'safe'"),
        ({"after": "find"}, "step mail: `after`: Expected `array`, got `str`"),
        ({"after": [1]}, "step mail: `after[0]`: Expected `str`, got `int`"),
        ({"tool": "a b"}, "step mail: `tool`: Expected `str` matching regex"),
        ({"more": 1}, "step mail: Object contains unknown field `more`"),
        ({"id": "\x1b[31m"}, "step number 2: `id`: Expected `str` matching regex"),
        ({"id": "mail\n"}, "step number 2: `id`: Expected `str` matching regex"),
    ],
)
def test_a_fault_names_its_step(fault: dict[str, Any], said: str) -> None:
    assert said in wrong(step("find"), {**step("mail"), **fault})


def test_steps_that_do_not_fit_together_are_all_named() -> None:
    said = wrong(
        step("a", "a"), step("b", "c"), step("a"), step("d", args={"x": {"$result": "nobody"}}), step("e")
    )
    assert "step a waits for itself" in said
    assert "step b waits for 'c', which is not a step of this plan" in said
    assert "two steps are called a" in said
    assert "step d waits for 'nobody'" in said
    assert said.endswith("nothing was done")


def test_a_result_of_its_own_is_a_cycle() -> None:
    assert "step a waits for itself" in wrong(step("a", args={"x": [{"$result": "a"}]}))


def test_a_cycle_is_named() -> None:
    said = wrong(step("start"), step("a", "c"), step("b", "start", "a"), step("c", "b"), step("after", "c"))
    assert "a after c after b after a" in said
    assert "start" not in said.partition(":")[2].partition(";")[0]


def test_a_cycle_through_a_reference_is_named() -> None:
    assert "a after b after a" in wrong(step("a", "b"), step("b", args={"x": {"y": [{"$result": "a"}]}}))


@pytest.mark.parametrize(
    "value, said",
    [
        ({"$result": 7}, "a reference is"),
        ({"$result": "a", "path": 7}, "a reference is"),
        ({"$result": "a", "more": 7}, "a reference is"),
        ({"$result": "a", "path": "id"}, "not a JSON Pointer"),
        ({"$result": "a", "path": "/~2"}, "not a JSON Pointer"),
        ({"$literal": 1, "more": 2}, "$literal must be the only key"),
    ],
)
def test_what_is_no_reference(value: Any, said: str) -> None:
    told = wrong(step("a"), step("b", args={"x": value}))
    assert "step b: " in told
    assert said in told


def test_arguments_are_not_nested_without_end() -> None:
    deep: Any = 1
    for _ in range(plans.DEPTH_MAX + 2):
        deep = [deep]
    assert "step a: the arguments are nested" in wrong(step("a", args={"x": deep}))


def test_ties_go_by_the_place_in_the_file() -> None:
    plan = parsed(step("z"), step("late", "a"), step("a"), step("m", "z"), step("b"))
    assert order(plan) == ["z", "a", "late", "m", "b"]


@st.composite
def graphs(draw: st.DrawFn) -> list[tuple[str, list[str]]]:
    """Steps in any order in the file, each waiting for some that are possible."""
    count = draw(st.integers(1, 12))
    names = [f"s{number}" for number in range(count)]
    waits = {
        name: draw(st.lists(st.sampled_from(names[:place]), unique=True)) if place else []
        for place, name in enumerate(names)
    }
    return [(name, waits[name]) for name in draw(st.permutations(names))]


@given(graphs())
def test_each_step_comes_after_those_it_waits_for(graph: list[tuple[str, list[str]]]) -> None:
    plan = parsed(*(step(name, *after) for name, after in graph))
    found = order(plan)
    assert sorted(found) == sorted(name for name, _ in graph)
    for name, after in graph:
        assert all(found.index(other) < found.index(name) for other in after)
    # Deterministic: of those that could come next, it is always the first in the file.
    waiting, done = dict(graph), set[str]()
    for name in found:
        assert name == next(other for other in waiting if done.issuperset(waiting[other]))
        del waiting[name]
        done.add(name)


@given(graphs(), st.data())
def test_closing_a_circle_is_always_found(graph: list[tuple[str, list[str]]], data: st.DataObject) -> None:
    names = [name for name, _ in graph]
    first, last = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
    steps = {name: step(name, *after) for name, after in graph}
    steps[first]["after"] = [*steps[first].get("after", []), last]
    steps[last]["after"] = [*steps[last].get("after", []), first]
    with pytest.raises(UsageError, match="waits for itself" if first == last else "has a cycle"):
        parsed(*steps.values())


# References

RESULT = {"id": 7, "items": [{"a/b": 1}, {"m~n": [True]}], "": "empty", "0": "text key"}


@pytest.mark.parametrize(
    "path, expected",
    [
        ("", RESULT),
        ("/id", 7),
        ("/items/0/a~1b", 1),
        ("/items/1/m~0n/0", True),
        ("/", "empty"),
        ("/0", "text key"),
    ],
)
def test_a_reference_is_followed(path: str, expected: Any) -> None:
    args = {"x": [{"$result": "a", "path": path}]}
    assert plans.resolve(args, {"a": RESULT}) == {"x": [expected]}


@pytest.mark.parametrize(
    "path, said",
    [
        ("/nothing", "the fields id, items"),
        ("/id/deeper", "a int"),
        ("/items/2", "a list of 2"),
        ("/items/-1", "a list of 2"),
        ("/items/00", "a list of 2"),
        ("/items/x", "a list of 2"),
    ],
)
def test_a_reference_that_leads_nowhere_says_what_is_there(path: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        plans.resolve({"x": {"$result": "a", "path": path}}, {"a": RESULT})
    assert f"the result of step a has no {path}" in caught.value.message
    assert said in caught.value.message
    assert "empty" not in caught.value.message  # a value


def test_a_literal_stays_as_it_is() -> None:
    value = {"$result": "a", "path": "/id"}
    assert list(plans.references({"x": {"$literal": value}})) == []
    assert plans.resolve({"x": {"$literal": value}}, {}) == {"x": value}
    assert plans.known_part({"x": {"$literal": value}, "y": value}) == {"x": value, "y": None}


def test_a_result_that_looks_like_a_reference_is_none() -> None:
    assert plans.resolve({"$result": "a"}, {"a": {"$result": "b"}}) == {"$result": "b"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def paths_of(value: Any, here: str = "") -> list[tuple[str, Any]]:
    found = [(here, value)]
    if isinstance(value, dict):
        for key, item in value.items():
            found += paths_of(item, f"{here}/{key.replace('~', '~0').replace('/', '~1')}")
    if isinstance(value, list):
        for number, item in enumerate(value):
            found += paths_of(item, f"{here}/{number}")
    return found


@given(json_values)
def test_every_place_of_a_result_can_be_referred_to(result: Any) -> None:
    for path, expected in paths_of(result):
        reference = {"$result": "a", "path": path}
        assert list(plans.references([reference])) == [ResultReference("a", path)]
        assert plans.resolve([reference], {"a": result}) == [expected]


@given(json_values)
def test_values_without_references_stay_the_same(value: Any) -> None:
    assert plans.resolve(value, {}) == value
    assert plans.known_part(value) == value


# Tools and keys


def test_tools_are_found_by_their_short_names() -> None:
    plan = parsed(
        {"id": "a", "tool": "mail"}, {"id": "b", "tool": "write"}, step("c"), tools={"mail": "shop.mail:send"}
    )
    assert plans.targets(plan, {"write": "shop.files:write"}) == {
        "a": "shop.mail:send",
        "b": "shop.files:write",
        "c": "shop.tools:write",
    }


def test_an_unknown_tool_is_named_with_its_step() -> None:
    plan = parsed({"id": "a", "tool": "mial"}, {"id": "b", "tool": "x"})
    with pytest.raises(UsageError) as caught:
        plans.targets(plan, {"mail": "shop.mail:send"})
    assert "step a: there is no tool 'mial'; step b: there is no tool 'x'" in caught.value.message
    assert "known here: mail." in caught.value.hint
    with pytest.raises(UsageError) as caught:
        plans.targets(plan, {})
    assert "no short names are known" in caught.value.hint


def test_a_plan_cannot_give_a_name_of_the_owner_another_meaning() -> None:
    plan = parsed(step("a"), tools={"write": "os:system"})
    with pytest.raises(UsageError, match="redefines write, which"):
        plans.targets(plan, {"write": "shop.files:write"})


def test_the_key_is_made_of_what_the_plan_means() -> None:
    plan = parsed(step("a", args={"x": 1}))
    imports = {"a": "shop.tools:write"}
    key = plans.default_key(plan, imports)
    assert key.startswith("plan:b3:")
    laid_out = (
        b'{"steps":[{"args":{"x":1},"retries":0,"tool":"shop.tools:write","id":"a"}],"$schema":"s",'
        b'"name":"report"}'
    )
    assert plans.default_key(parse_plan(laid_out), imports) == key
    assert plans.default_key(parsed(step("a", args={"x": 2})), imports) != key
    assert plans.default_key(parsed(step("a", args={"x": "1"})), imports) != key
    assert plans.default_key(plan, {"a": "shop.tools:other"}) != key


def test_weaker_means_easier_to_take_back() -> None:
    assert plans.weaker(Effect.RESTORABLE, Effect.IRREVERSIBLE)
    assert plans.weaker(Effect.NONE, Effect.RESTORABLE)
    assert not plans.weaker(Effect.RESTORABLE, Effect.RESTORABLE)
    assert not plans.weaker(Effect.IRREVERSIBLE, Effect.COMPENSABLE)
    assert plans.weaker(Effect.DEFERRED, Effect.UNKNOWN) and plans.weaker(Effect.UNKNOWN, Effect.IRREVERSIBLE)


def test_a_step_can_be_made_by_hand() -> None:
    assert plans.dependencies(PlannedStep("a", "x:y", after=("b", "b"))) == ("b",)


def test_what_a_tool_does_to_its_arguments_stays_with_it() -> None:
    args = {"x": {"$result": "a", "path": "/list"}, "y": {"$literal": [1]}}
    results = {"a": {"list": [1]}}
    given = plans.resolve(args, results)
    given["x"].append(2)
    given["y"].append(2)
    assert plans.resolve(args, results) == {"x": [1], "y": [1]}


@pytest.mark.parametrize("around", [lambda inner: [inner], lambda inner: {"k": inner}], ids=["list", "dict"])
def test_arguments_may_be_nested_to_the_limit_and_no_deeper(around: Callable[[Any], Any]) -> None:
    value: Any = {"$result": "first"}
    for _ in range(plans.DEPTH_MAX):
        value = around(value)
    assert [found.step for found in plans.references(value)] == ["first"]
    with pytest.raises(UsageError, match="nested more than 64 deep"):
        list(plans.references(around(value)))


def test_a_plan_may_have_as_many_bytes_as_are_allowed_and_no_more() -> None:
    text = b'{"name": "x", "steps": [{"id": "a", "tool": "m:f"}]}'.ljust(plans.BYTES_MAX)
    assert parse_plan(text).name == "x"
    with pytest.raises(UsageError, match="has at most 4,194,304"):
        parse_plan(text + b" ")


def test_a_plan_may_have_as_many_steps_as_are_allowed_and_no_more() -> None:
    steps = [{"id": f"s{number}", "tool": "m:f"} for number in range(10_001)]
    assert len(parse_plan(msgspec.json.encode({"name": "x", "steps": steps[1:]})).steps) == 10_000
    with pytest.raises(UsageError, match="length <= 10000"):
        parse_plan(msgspec.json.encode({"name": "x", "steps": steps}))


def test_only_the_steps_of_the_cycle_are_named_in_it() -> None:
    message = wrong(step("c", "a"), step("a", "b"), step("b", "a"))
    assert "can be first: a after b after a; nothing" in message


def test_names_that_are_taken_are_told_in_order() -> None:
    names = [f"n{n}" for n in range(9)]
    plan = parsed(step("a"), tools=dict.fromkeys(reversed(names), "m:f"))
    with pytest.raises(UsageError, match=f"redefines {', '.join(names)}, which"):
        plans.targets(plan, dict.fromkeys(names, "m:g"))


def test_a_letter_of_a_text_is_no_item_of_it() -> None:
    with pytest.raises(UsageError, match="the result of step a has no /0: it is a str"):
        plans.resolve({"$result": "a", "path": "/0"}, {"a": "text"})
