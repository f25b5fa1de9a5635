"""A plan is refused whole before it begins, or carried out step by step with results where they are referred to."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from takeback.core.events import Effect
from takeback.core.plan import parse_plan
from takeback.core.rules import PathRules, Rules, ToolRules
from takeback.engine.plans import PreparedPlan, prepare, run_plan
from takeback.errors import RefusedError, UsageError
from tests.engine import plan_tools
from tests.engine.plan_tools import SimpleRuns, calls

TOOLS = plan_tools.__name__


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, TOOLS, plan_tools)
    calls.clear()
    return tmp_path


def step(id: str, tool: str, *after: str, **args: Any) -> dict[str, Any]:
    return {"id": id, "tool": f"{TOOLS}:{tool}", "args": args, "after": list(after)}


def prepared(
    *steps: dict[str, Any], rules: Rules | None = None, autopilot: bool = False, **more: Any
) -> PreparedPlan:
    plan = parse_plan(json.dumps({"name": "report", "steps": list(steps), **more}).encode())
    return prepare(
        plan, root=os.getcwd(), rules=rules or Rules(), known={"put": f"{TOOLS}:write"}, autopilot=autopilot
    )


def wrong(*steps: dict[str, Any], **more: Any) -> str:
    with pytest.raises(UsageError) as caught:
        prepared(*steps, **more)
    assert not calls
    assert caught.value.message.endswith("nothing was done")
    return caught.value.message


def test_a_plan_is_carried_out_in_order_with_its_references() -> None:
    runs = SimpleRuns()
    told: list[tuple[str, str]] = []
    ready = prepared(
        {
            "id": "write",
            "tool": "put",
            "args": {"path": "a.md", "text": {"$result": "find", "path": "/text"}},
            "retries": 3,
        },
        step("find", "search", topic="cats"),
    )
    ran = run_plan(runs, ready, tell=lambda id, what: told.append((id, what)))
    assert calls == [("search", {"topic": "cats"}), ("write", {"path": "a.md", "text": "about cats"})]
    assert ran.results["write"] == "a.md"
    assert ran.results["find"]["hits"] == [{"id": 7}]
    assert (ran.run, ran.key, ran.earlier) == ("r1", ready.key, ())
    assert told == [("find", "began"), ("find", "done"), ("write", "began"), ("write", "done")]
    assert runs.retries == {"find": 0, "write": 3}


def test_the_key_is_the_callers_the_plans_or_made_of_the_plan() -> None:
    runs = SimpleRuns()
    plain = prepared(step("a", "search", topic="x"))
    run_plan(runs, plain)
    run_plan(runs, prepared(step("a", "search", topic="x"), key="K"), autopilot=True)
    run_plan(runs, prepared(step("a", "search", topic="x"), key="K"), key="mine")
    assert runs.begun == [
        ("report", plain.key, False),
        ("report", "K", True),
        ("report", "mine", False),
    ]
    assert plain.key.startswith("plan:b3:")


def test_running_it_again_gives_what_is_recorded() -> None:
    runs = SimpleRuns()
    first = run_plan(runs, prepared(step("a", "search", topic="x")))
    again = run_plan(runs, prepared(step("a", "search", topic="x")))
    assert again.results == first.results
    assert again.earlier == ("a",)
    assert len(calls) == 1


def test_it_continues_after_the_last_completed_step() -> None:
    runs, steps = SimpleRuns(), [step("a", "search", topic="x"), step("b", "fail", "a")]
    ready = prepared(*steps)
    with pytest.raises(ConnectionError):
        run_plan(runs, ready)
    runs.kept[ready.key]["b"] = None
    assert run_plan(runs, ready).earlier == ("a", "b")
    assert len(calls) == 1


def test_a_result_means_the_same_whether_it_is_new_or_recorded() -> None:
    runs = SimpleRuns()
    ready = prepared(step("p", "point"), step("w", "write", path="x", text={"$result": "p", "path": "/y/1"}))
    assert run_plan(runs, ready).results["p"] == {"x": 3, "y": [1, 2]}
    assert calls == [("write", {"path": "x", "text": 2})]


def test_a_result_that_cannot_be_kept_is_named() -> None:
    with pytest.raises(UsageError, match="the result of step a is a object, which cannot be kept"):
        run_plan(SimpleRuns(), prepared(step("a", "unkept")))


def test_a_coroutine_is_awaited() -> None:
    assert run_plan(SimpleRuns(), prepared(step("a", "later", text="x"))).results == {"a": "X"}


def test_an_argument_called_key_reaches_the_tool() -> None:
    assert run_plan(SimpleRuns(), prepared(step("a", "keyed", key="k"))).results == {"a": "k"}
    assert calls == [("keyed", {"key": "k", "value": "v"})]
    calls.clear()
    assert "takes key by name only" in wrong(step("a", "keyed_by_name", key="k"))


@pytest.mark.parametrize(
    "tool, said",
    [
        (
            "nowhere.at.all:f",
            "step a: nowhere.at.all:f cannot be imported: ModuleNotFoundError: No module named",
        ),
        (f"{TOOLS}:nothing", "cannot be imported: AttributeError"),
        (f"{TOOLS}:not_a_function", "is a int, not a function"),
        ("broken_module:f", "cannot be imported: ZeroDivisionError"),
        ("exiting_module:f", "cannot be imported: SystemExit"),
    ],
)
def test_a_tool_that_cannot_be_had(
    tool: str, said: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "broken_module.py").write_text("1 / 0")
    (folder / "exiting_module.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(folder)
    message = wrong({"id": "a", "tool": tool}, step("b", "search", topic="x"))
    assert said in message
    assert sorted(os.listdir(folder)) == ["broken_module.py", "exiting_module.py"]


def test_arguments_that_do_not_fit() -> None:
    said = wrong(step("a", "write"), step("b", "search", topic="x", more=1))
    assert f"step a: {TOOLS}:write cannot be called like this: missing a required argument: 'path'" in said
    assert "step b: " in said
    assert "'more'" in said


def test_an_expectation_is_not_weaker_than_the_tool() -> None:
    weak = {**step("a", "wire", amount=1), "effect": "restorable"}
    assert f"step a expects {TOOLS}:wire to be restorable, but it is irreversible" in wrong(weak)
    odd = {**step("a", "write", path="x"), "effect": "compensable"}
    assert "to be compensable, but it is unknown" in wrong(odd)
    claimed = {**step("a", "write", path="x"), "effect": "restorable"}
    assert "to be restorable, but it is unknown" in wrong(claimed), "a plan is data, often a model's"
    careful = {**step("a", "write", path="x"), "effect": "irreversible"}
    ready = prepared(careful)
    assert ready.use(ready.order[0]).effect is Effect.IRREVERSIBLE
    assert [asked.step for asked in ready.asks] == ["a"]


def test_a_broken_rule_keeps_the_plan_from_beginning() -> None:
    runs = SimpleRuns()
    ready = prepared(step("a", "search", topic="x"), step("b", "write", path="../x"))
    with pytest.raises(
        RefusedError, match=r"step b: path = .*x: outside the workspace \(rule paths.outside\)"
    ) as caught:
        run_plan(runs, ready)
    assert "[rules.paths]" in caught.value.how and "[rules.paths]" not in str(caught.value)
    assert (runs.begun, calls) == ([], [])


def test_on_autopilot_what_must_be_asked_is_refused_before_the_beginning() -> None:
    assert prepared(step("a", "wire", amount=1)).broken == []
    ready = prepared(step("a", "wire", amount=1), autopilot=True)
    with pytest.raises(RefusedError, match=r"effects.irreversible"):
        run_plan(SimpleRuns(), ready, autopilot=True)


def test_what_is_referred_to_is_judged_when_it_is_known() -> None:
    ready = prepared(
        step("a", "search", topic="x"), step("b", "write", path={"$result": "a", "path": "/where"})
    )
    assert ready.broken == []
    with pytest.raises(RefusedError, match="step b was refused before it ran: path = /etc/passwd"):
        run_plan(SimpleRuns(), ready)
    assert [name for name, _ in calls] == ["search"]


def test_a_link_out_of_the_workspace_is_seen(folder: Path) -> None:
    (folder / "out").symlink_to("/etc")
    assert [b.rule for b in prepared(step("a", "write", path="out/x")).broken] == ["paths.outside"]
    assert prepared(step("a", "write", path="in/x")).broken == []
    assert prepared(step("a", "write", path="a\0b")).broken == []


def test_a_denied_tool_is_not_even_imported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "loud_module.py").write_text("open('imported', 'w').close()\ndef f(): pass\n")
    monkeypatch.syspath_prepend(folder)
    plan = {"id": "a", "tool": "loud_module:f", "args": {"anything": 1}}
    denied = prepared(plan, rules=Rules(tools=ToolRules(deny=("loud_*",))))
    assert [b.rule for b in denied.broken] == ["tools.deny"]
    assert not (folder / "imported").exists()
    with pytest.raises(RefusedError):
        run_plan(SimpleRuns(), denied)


def test_a_plan_cannot_rename_a_tool_past_the_rules() -> None:
    rules = Rules(tools=ToolRules(allow=("harmless", "put")))
    plan = {"id": "a", "tool": "harmless", "args": {"amount": 1}}
    ready = prepared(plan, rules=rules, tools={"harmless": f"{TOOLS}:wire"})
    assert [b.rule for b in ready.broken] == ["tools.allow"]
    # But a name of takeback.toml counts, by whatever name the plan calls the tool.
    assert prepared(step("a", "write", path="x"), rules=rules).broken == []


def test_a_tool_is_denied_and_allowed_by_any_name_that_leads_to_it() -> None:
    plan = {"id": "a", "tool": "os:getcwd"}
    for name in ("os:getcwd", "posix:getcwd"):
        assert prepared(plan, rules=Rules(tools=ToolRules(deny=(name,)))).broken != []
    assert prepared(plan, rules=Rules(tools=ToolRules(allow=("os:getcwd",)))).broken == []
    assert prepared(plan, rules=Rules(tools=ToolRules(ask=("os:getcwd",)))).asks != []


def test_a_tool_that_says_nothing_of_itself_is_noted() -> None:
    notes = prepared(step("a", "write", path="x"), step("b", "wire", amount=1)).notes
    assert notes == [
        f"the effect of {TOOLS}:write is unknown: only what it changes in the workspace can be taken back"
    ]


def test_functions_written_in_c_are_called_as_they_are() -> None:
    ready = prepared({"id": "a", "tool": "builtins:max", "args": {}})
    with pytest.raises(TypeError):
        run_plan(SimpleRuns(), ready)


def test_rules_for_paths_hold_for_plans_as_they_are_written() -> None:
    rules = Rules(paths=PathRules(allow=("docs/**",)))
    assert [b.rule for b in prepared(step("a", "write", path="x"), rules=rules).broken] == ["paths.allow"]
    assert prepared(step("a", "write", path="docs/x"), rules=rules).broken == []
