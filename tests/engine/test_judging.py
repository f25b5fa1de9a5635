"""The rules of takeback.toml hold for every call of a run, however its arguments are passed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import takeback
from takeback.core.plan import parse_plan
from takeback.engine.plans import prepare, run_plan
from takeback.engine.runs.run import Run
from takeback.errors import InvalidOutput, RefusedError
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace
from tests.engine import plan_tools
from tests.engine.plan_tools import calls

TOOLS = plan_tools.__name__
Ruled = Callable[[str], Workspace]


@pytest.fixture
def ruled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ruled]:
    """A workspace with these rules, in which this process works."""
    opened: list[Workspace] = []
    root = tmp_path / "work"
    root.mkdir()
    monkeypatch.chdir(root)
    calls.clear()

    def open_with(text: str) -> Workspace:
        (root / "takeback.toml").write_text(text)
        opened.append(open_workspace(root, home=tmp_path / "state", watching=False, accept_config=True))
        return opened[-1]

    yield open_with
    for workspace in opened:
        workspace.close()


def attempt(tb: Workspace, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    with tb.run("work", **options) as run:
        return run.call(function, *args)


@pytest.mark.parametrize(
    "rules, function, args, rule",
    [
        ("[rules.paths]", plan_tools.write, ["../x"], "paths.outside"),
        ("[rules.paths]\ndeny = ['.env']", plan_tools.write, [".env"], "paths.deny"),
        ("[rules.tools]\nallow = []", plan_tools.write, ["x"], "tools.allow"),
        ("[rules.tools]\ndeny = ['*:write']", plan_tools.write, ["x"], "tools.deny"),
        ("[rules.effects]\nirreversible = 'deny'", plan_tools.wire, [1], "effects.irreversible"),
        ("[rules.limits]\nargument-bytes = 20", plan_tools.write, ["x" * 30], "limits.argument-bytes"),
        ("[rules.commands]\ndeny = ['rm']", max, ["rm -rf x"], "commands.deny"),
    ],
)
def test_a_call_that_breaks_a_rule_is_not_made(
    rules: str, function: Callable[..., Any], args: list[Any], rule: str, ruled: Ruled
) -> None:
    tb = ruled(rules)
    with pytest.raises(RefusedError, match="It was not started") as caught:
        attempt(tb, function, *args)
    assert f"the rule is {rule}" in caught.value.hint
    assert "takeback.toml" in caught.value.how
    assert "takeback.toml" not in str(caught.value), "a framework passes this on to its model"
    assert calls == []


def test_what_keeps_to_the_rules_is_made(ruled: Ruled) -> None:
    tb = ruled(
        f"[tools]\nput = '{TOOLS}:write'\n[rules.paths]\nallow = ['docs/**']\n[rules.tools]\nallow = ['put']"
    )
    assert attempt(tb, plan_tools.write, "docs/x") == "docs/x"
    with pytest.raises(RefusedError, match="not among the allowed tools"):
        attempt(tb, plan_tools.search, "x")


@pytest.mark.parametrize("name", ["os:getcwd", "posix:getcwd"])
def test_a_tool_is_meant_by_any_name_that_leads_to_it(name: str, ruled: Ruled) -> None:
    with pytest.raises(RefusedError, match="denied"):
        attempt(ruled(f"[rules.tools]\ndeny = ['{name}']"), os.getcwd)


def test_what_is_allowed_by_another_name_is_allowed(ruled: Ruled) -> None:
    assert attempt(ruled("[rules.tools]\nallow = ['os:getcwd']"), os.getcwd) == os.getcwd()


def test_calls_are_counted_for_each_run(ruled: Ruled) -> None:
    tb = ruled("[rules.limits]\ncalls-per-tool = 2")

    def three() -> None:
        with tb.run("work") as run:
            for name in ("a", "b", "c"):
                run.call(plan_tools.write, name)

    for _ in range(2):
        calls.clear()
        with pytest.raises(RefusedError, match="call number 3"):
            three()
        assert len(calls) == 2


def test_the_irreversible_is_asked_about_unless_its_owner_allows_it(ruled: Ruled) -> None:
    tb = ruled("")
    with pytest.raises(RefusedError, match="on autopilot there is no human to ask"):
        attempt(tb, plan_tools.wire, 1, autopilot=True)
    with pytest.raises(RefusedError):
        attempt(tb, plan_tools.wire, 1, approve=lambda _: False)
    assert calls == []
    assert attempt(tb, plan_tools.wire, 1, approve=lambda _: True) == 1
    tb.close()
    tb = ruled("[rules.effects]\nirreversible = 'allow'")
    assert attempt(tb, plan_tools.wire, 2) == 2
    with pytest.raises(RefusedError, match="cannot be taken back"):
        attempt(tb, plan_tools.wire, 3, autopilot=True)


def test_without_rules_code_may_name_any_path(ruled: Ruled, tmp_path: Path) -> None:
    assert attempt(ruled(""), plan_tools.write, "/elsewhere") == "/elsewhere"


# Plans on the engine


class Answering:
    """A workspace whose human is always there."""

    def __init__(self, tb: Workspace, *, granted: bool) -> None:
        self._tb = tb
        self._granted = granted
        self.asked: list[str] = []

    def run(self, name: str, *, key: str, autopilot: bool, **_: Any) -> Run:
        return self._tb.run(name, key=key, autopilot=autopilot, approve=self._answer)

    def _answer(self, approval: Any) -> bool:
        self.asked.append(approval.asked.name)
        return self._granted


@pytest.mark.parametrize("tool, args", [("write", {"path": "x"}), ("later", {"text": "x"})])
def test_more_care_than_the_tool_asks_for_is_taken(tool: str, args: dict[str, Any], ruled: Ruled) -> None:
    tb = ruled("")
    step = {"id": "a", "tool": f"{TOOLS}:{tool}", "args": args, "effect": "irreversible"}
    plan = parse_plan(json.dumps({"name": "p", "steps": [step]}).encode())
    ready = prepare(plan, root=tb.root, rules=tb.settings.rules, known={})
    no = Answering(tb, granted=False)
    with pytest.raises(RefusedError):
        run_plan(no, ready)
    assert (no.asked, calls) == ([tool], [])
    yes = Answering(tb, granted=True)
    run_plan(yes, ready)
    assert (yes.asked, [name for name, _ in calls]) == ([tool], [tool])


# A model's output in a run


class Wanted(msgspec.Struct):
    path: str


def test_an_output_that_is_not_valid_takes_the_run_back(ruled: Ruled) -> None:
    tb = ruled("")
    wanted: list[Wanted] = []

    def work(text: str) -> None:
        with tb.run("work") as run:
            Path("made.md").write_text("x")
            with run.buffered(Wanted, apply=wanted.append) as out:
                out.feed(text)
            Path(out.value.path).write_text("y")

    with pytest.raises(InvalidOutput) as caught:
        work('{"path": "wanted.')
    assert isinstance(caught.value, takeback.InvalidOutput)
    assert (wanted, Path("made.md").exists()) == ([], False)
    work('{"path": "wanted.md"}')
    assert wanted == [Wanted("wanted.md")]
    assert Path("wanted.md").read_text() == "y"
