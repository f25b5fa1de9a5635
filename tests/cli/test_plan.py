"""`takeback plan check`: what it says of a plan, and that it does nothing."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.world.cli import Result

from .conftest import Call

TOOLS = """
import takeback

def search(topic): raise AssertionError("called")
def write(path, text=""): raise AssertionError("called")
@takeback.action(effect="irreversible")
def send(to): raise AssertionError("called")
"""


@pytest.fixture(autouse=True)
def project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with tools and a plan. Modules and their paths are forgotten afterwards."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (folder / "shop_tools.py").write_text(TOOLS)
    yield folder
    sys.modules.pop("shop_tools", None)


def plan(*steps: dict[str, Any], file: str = "plan.json", **more: Any) -> None:
    Path(file).write_text(json.dumps({"name": "report", "steps": list(steps), **more}))


def step(id: str, tool: str, *after: str, **args: Any) -> dict[str, Any]:
    return {"id": id, "tool": f"shop_tools:{tool}", "args": args, "after": list(after)}


GOOD = [step("write", "write", path="a.md", text={"$result": "find"}), step("find", "search", topic="x")]


def refused(said: Result, *words: str) -> None:
    assert (said.code, said.stdout) == (2, ""), said
    for word in words:
        assert word in said.stderr, said.stderr


def test_a_good_plan(call: Call, project: Path) -> None:
    plan(*GOOD, step("mail", "send", "write", to="team"))
    before = sorted(os.listdir(project))
    said = call("plan", "check", "plan.json")
    assert said.code == 0
    lines = said.stdout.splitlines()
    assert lines[0] == "'report' has 3 steps and keeps to the rules. They would run in this order:"
    assert lines[1:4] == [
        "  find: shop_tools:search, unknown",
        "  write: shop_tools:write, unknown, after find",
        "  mail: shop_tools:send, irreversible, after write",
    ]
    assert "waits for you   step mail" in said.stdout
    assert "note            the effect of shop_tools:write is unknown" in said.stdout
    assert lines[-1] == "  run it          takeback plan run plan.json"
    assert sorted(os.listdir(project)) == before


def test_a_good_plan_as_json(call: Call) -> None:
    plan(*GOOD, key="K")
    said = call("plan", "check", "--json", "plan.json").json
    assert (said["name"], said["key"], said["ok"], said["broken"], said["asks"]) == (
        "report",
        "K",
        True,
        [],
        [],
    )
    assert said["steps"][1] == {
        "id": "write",
        "tool": "shop_tools:write",
        "effect": "unknown",
        "after": ["find"],
    }


def test_a_broken_rule_says_which_step_which_rule_and_how_to_allow_it(call: Call) -> None:
    Path("takeback.toml").write_text('[rules.tools]\ndeny = ["*:send"]\n')
    plan(step("write", "write", path="../x"), step("mail", "send", to="x"))
    said = call("plan", "check", "plan.json")
    assert said.code == 3
    lines = said.stdout.splitlines()
    assert lines[0] == "Refused: 'report' breaks 2 rules. Nothing was done."
    assert lines[1].startswith("  step write: path = ") and lines[1].endswith("(rule paths.outside)")
    assert lines[2].startswith("    to allow it   add ") and lines[2].endswith(
        "[rules.paths] of takeback.toml"
    )
    assert lines[3] == '  step mail: shop_tools:send is denied by "*:send" (rule tools.deny)'
    data = call("plan", "check", "plan.json", "--json")
    assert (data.code, data.json["ok"]) == (3, False)
    assert [(b["step"], b["rule"]) for b in data.json["broken"]] == [
        ("write", "paths.outside"),
        ("mail", "tools.deny"),
    ]
    assert all(b["how_to_allow"] for b in data.json["broken"])


def test_inside_of_an_action_nobody_is_told_how_to_allow_it(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan(step("write", "write", path="../x"))
    monkeypatch.setenv("TAKEBACK_ACTION", "w-1:a5")
    for words in (("check", "plan.json"), ("check", "plan.json", "--json"), ("run", "plan.json")):
        said = call("plan", *words)
        assert said.code == 3 and "paths.outside" in said.stdout + said.stderr
        assert "takeback.toml" not in said.stdout + said.stderr


def test_on_autopilot_nobody_can_be_asked(call: Call) -> None:
    plan(step("mail", "send", to="x"))
    assert call("plan", "check", "plan.json").code == 0
    said = call("plan", "check", "plan.json", "--autopilot")
    assert said.code == 3
    assert "rule effects.irreversible" in said.stdout


def test_short_names_come_from_takeback_toml(call: Call) -> None:
    Path("takeback.toml").write_text('[tools]\nput = "shop_tools:write"\n[rules.tools]\nallow = ["put"]\n')
    plan({"id": "a", "tool": "put", "args": {"path": "x"}})
    assert call("plan", "check", "plan.json").code == 0
    plan(step("b", "search", topic="x"))
    assert call("plan", "check", "plan.json").code == 3


@pytest.mark.parametrize(
    "steps, said",
    [
        ([step("a", "write", "b", path="x"), step("b", "write", "a", path="x")], "a after b after a"),
        ([{"id": "a", "tool": "nothing"}], "step a: there is no tool 'nothing'"),
        ([{"id": "a", "tool": "no_such_module:f"}], "no_such_module:f cannot be imported"),
        ([step("a", "nothing")], "shop_tools:nothing cannot be imported"),
        ([step("a", "search")], "missing a required argument: 'topic'"),
        ([step("a", "search", topic="x"), step("a", "search", topic="x")], "two steps are called a"),
        ([step("a", "search", "a", topic="x")], "step a waits for itself"),
        ([], "length >= 1"),
    ],
)
def test_a_plan_that_cannot_work(steps: list[dict[str, Any]], said: str, call: Call) -> None:
    plan(*steps)
    refused(call("plan", "check", "plan.json"), said, "nothing was done")
    error = call("plan", "check", "plan.json", "--json")
    assert (error.code, error.json["error"]["code"]) == (2, "usage")


def test_a_file_that_is_no_plan(call: Call) -> None:
    refused(call("plan", "check", "missing.json"), "missing.json cannot be read: No such file")
    refused(call("plan", "check", "."), "cannot be read")
    Path("x.json").write_text("{")
    refused(call("plan", "check", "x.json"), "x.json is not JSON")
    refused(call("plan"), "Usage: takeback plan")
    refused(call("plan", "frobnicate", "x"), "there is no command")


def test_rules_that_make_no_sense(call: Call) -> None:
    plan(*GOOD)
    for text, said in [
        ('[rules.paths]\nallow = "src"', "$.rules.paths.allow"),
        ("[rules.limits]\nsteps = -1", "$.rules.limits.steps"),
        ('[rules.effects]\nirreversible = "maybe"', "$.rules.effects.irreversible"),
        ("[rules.effects]\nunknown = 'perhaps'", "$.rules.effects.unknown"),
        ("[rules.effects]\nharmless = 'allow'", "unknown field `harmless`"),
        ("[rules.nonsense]", "unknown field `nonsense`"),
        ('[tools]\nput = "write"', "$.tools"),
    ]:
        Path("takeback.toml").write_text(text)
        refused(call("plan", "check", "plan.json"), "takeback.toml is not valid", said, "docs/CONFIG.md")


def test_rules_that_an_agent_loosened_do_not_hold(call: Call) -> None:
    Path("takeback.toml").write_text('[rules.tools]\ndeny = ["*:send"]\n')
    plan(step("mail", "send", to="x"))
    call("save")
    call("run", "--", "rm", "takeback.toml")
    said = call("plan", "check", "plan.json")
    assert said.code == 3
    assert "rule tools.deny" in said.stdout
    assert "--accept-config" in said.stderr


def test_from_a_folder_below_and_from_elsewhere(
    call: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / ".git").mkdir()
    (project / "sub").mkdir()
    plan(step("a", "write", path="x"), file="sub/plan.json")
    monkeypatch.chdir(project / "sub")
    assert call("plan", "check", "plan.json").code == 0
    monkeypatch.chdir("/")
    assert call("plan", "check", "-C", str(project / "sub"), "plan.json").code == 0


def test_errors_of_plan_run_are_json_on_standard_output(call: Call) -> None:
    Path("x.json").write_text("{")
    said = call("plan", "run", "--json", "x.json")
    assert (said.code, said.json["error"]["code"], said.stderr) == (2, "usage", "")
