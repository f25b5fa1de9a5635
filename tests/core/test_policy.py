"""What the rules allow, what they ask about, what they refuse; and that each refusal says how to allow it."""

from __future__ import annotations

import json
import posixpath
from pathlib import PurePosixPath
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.core import policy
from takeback.core.events import Effect
from takeback.core.plan import Plan, PlannedStep, parse_plan
from takeback.core.policy import (
    Broken,
    Decision,
    Foreseen,
    RuleContext,
    Use,
    judge_call,
    judge_typed,
    paths_in,
)
from takeback.core.rules import (
    CommandRules,
    EffectRules,
    LimitRules,
    PathRules,
    Rules,
    Ruling,
    ToolRules,
    for_plans,
)

GROUND = RuleContext("/srv/shop")
TOOL = "shop.tools:write"


def rules(**tables: Any) -> Rules:
    """Rules as takeback.toml writes them."""
    return msgspec.convert(tables, Rules)


def judge(given: Rules, *, ground: RuleContext = GROUND, effect: str = "restorable", **args: Any) -> Decision:
    return judge_call(given, TOOL, Effect(effect), args, ground)


def on_path(path: Any, ground: RuleContext = GROUND, **table: Any) -> Decision:
    return judge(Rules(paths=PathRules(**table)), ground=ground, path=path)


def test_without_rules_only_the_irreversible_is_asked_about() -> None:
    for effect in Effect:
        found = judge(Rules(), effect=effect, path="/etc/passwd", command="rm -rf /")
        assert found.do is (Ruling.ASK if effect is Effect.IRREVERSIBLE else Ruling.ALLOW)


def test_rules_are_read_as_they_are_written() -> None:
    found = rules(
        paths={"allow": ["src/**"], "deny": [".env"], "outside": ["/tmp/**"], "arguments": ["goal"]},
        tools={"allow": ["shop.*"], "ask": [], "deny": ["os:*"]},
        effects={"irreversible": "deny"},
        commands={"deny": ["rm -rf"], "ask": ["git push"], "arguments": ["line"]},
        limits={"steps": 3, "calls-per-tool": 2, "argument-bytes": 10},
    )
    assert found.paths == PathRules(("src/**",), (".env",), ("/tmp/**",), ("goal",))
    assert found.tools == ToolRules(("shop.*",), (), ("os:*",))
    assert found.effects == EffectRules(irreversible=Ruling.DENY)
    assert found.commands == CommandRules(("git push",), ("rm -rf",), ("line",))
    assert found.limits == LimitRules(3, 2, 10)


# Tools


@pytest.mark.parametrize(
    "table, do, rule",
    [
        ({"deny": ["shop.tools:*"]}, Ruling.DENY, "tools.deny"),
        ({"deny": ["write"]}, Ruling.DENY, "tools.deny"),
        ({"deny": ["shop.tools"]}, Ruling.ALLOW, ""),
        ({"deny": ["other"]}, Ruling.ALLOW, ""),
        ({"ask": [TOOL]}, Ruling.ASK, "tools.ask"),
        ({"allow": []}, Ruling.DENY, "tools.allow"),
        ({"allow": ["mail", "write"]}, Ruling.ALLOW, ""),
        ({"allow": ["*"]}, Ruling.ALLOW, ""),
        ({"allow": ["shop.*"], "deny": ["*:write"]}, Ruling.DENY, "tools.deny"),
        ({"ask": ["*"], "deny": ["*"]}, Ruling.DENY, "tools.deny"),
    ],
)
def test_tools(table: dict[str, Any], do: Ruling, rule: str) -> None:
    ground = RuleContext("/srv/shop", aliases=[("write", TOOL), ("other", "shop.tools:other")])
    found = judge(rules(tools=table), ground=ground)
    assert (found.do, found.rule) == (do, rule)


def test_why_a_tool_does_not_just_run() -> None:
    assert judge(rules(tools={"deny": [TOOL]})).why == f'{TOOL} is denied by "{TOOL}"'
    assert judge(rules(tools={"ask": ["*"]})).why == f'approval of {TOOL} is required by "*"'


def test_a_plan_may_have_as_many_steps_as_are_allowed() -> None:
    def broken(steps: int) -> list[str]:
        made = [{"id": f"s{n}", "tool": TOOL} for n in range(steps)]
        plan = parse_plan(json.dumps({"name": "x", "steps": made}).encode())
        found = policy.check_plan(
            plan, rules(limits={"steps": 3}), lambda step: Use(step.tool, Effect.NONE), GROUND
        )
        return [one.rule for one in found]

    assert broken(2) == broken(3) == []
    assert broken(4) == ["limits.steps"]


def test_a_tool_has_to_be_allowed_under_both_its_names() -> None:
    plan = plan_of({"id": "a"})

    def broken(**table: Any) -> list[str]:
        def imported(step: PlannedStep) -> Use:
            return Use("shop.inner:write", Effect.NONE, also=step.tool)

        return [b.rule for b in policy.check_plan(plan, rules(tools=table), imported, GROUND)]

    assert broken(allow=["shop.*"]) == []
    assert broken(allow=["shop.inner:write"]) == ["tools.allow"]
    assert broken(allow=[TOOL]) == ["tools.allow"]
    assert broken(deny=["shop.inner:*"]) == broken(deny=[TOOL]) == ["tools.deny"]


def test_how_to_allow_a_tool() -> None:
    assert judge(rules(tools={"allow": []})).how == f'add "{TOOL}" to allow in [rules.tools] of takeback.toml'
    assert judge(rules(tools={"deny": ["*"]})).how == 'remove "*" from deny in [rules.tools] of takeback.toml'


def test_effects() -> None:
    given = rules(effects={"irreversible": "allow", "compensable": "deny", "none": "ask"})
    assert judge(given, effect="irreversible").do is Ruling.ALLOW
    assert judge(given, effect="none").do is Ruling.ASK
    found = judge(given, effect="compensable")
    assert (found.do, found.rule) == (Ruling.DENY, "effects.compensable")
    assert found.how == 'set compensable = "allow" in [rules.effects] of takeback.toml'


# Paths


@pytest.mark.parametrize(
    "path",
    [
        "a.md",
        "./a.md",
        "src/../a.md",
        "/srv/shop/a.md",
        "/srv/shop",
        ".",
        "",
        "../shop/a.md",
        "//srv//shop/x",
    ],
)
def test_inside_is_allowed(path: str) -> None:
    assert on_path(path).do is Ruling.ALLOW


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../a.md",
        "src/../../a.md",
        "/etc/passwd",
        "/srv/shopping/x",
        "/srv",
        "/",
        "~",
        "~/x",
        "~bob/x",
        "~/../../srv/shop/x",
        "/srv/shop/../x",
        "file:///etc/passwd",
        "file://localhost/etc/passwd",
        b"../x",
    ],
)
def test_outside_is_not(path: Any) -> None:
    found = on_path(path)
    assert (found.do, found.rule) == (Ruling.DENY, "paths.outside")
    assert "outside the workspace" in found.why
    assert "to outside in [rules.paths]" in found.how


def test_the_address_of_a_file_is_a_path_and_that_of_a_page_is_not() -> None:
    for address in ("file:///etc/passwd", "FILE://../../x"):
        assert on_path(address).rule == "paths.outside"
    assert on_path("https://example.org/../../x").do is Ruling.ALLOW


def test_outside_can_be_allowed_by_name() -> None:
    assert on_path("/tmp/x/y", outside=("/tmp/**",)).do is Ruling.ALLOW
    assert on_path("/tmp/../etc", outside=("/tmp/**",)).do is Ruling.DENY
    # A pattern for outside is a whole path: no name is allowed wherever it is.
    assert on_path("/etc/tmp", outside=("tmp",)).do is Ruling.DENY
    assert on_path("/tmp", outside=("tmp",)).do is Ruling.ALLOW
    assert on_path("~/notes/x", outside=("~/notes",)).do is Ruling.ALLOW


def test_allowed_and_denied_inside() -> None:
    assert on_path("src/a.py", allow=("src/**",)).do is Ruling.ALLOW
    found = on_path("docs/../b.py", allow=("src/**",))
    assert (found.rule, found.why) == ("paths.allow", "path = b.py: not among the allowed paths")
    found = on_path("src/.env", allow=("src/**",), deny=(".env",))
    assert (found.rule, found.why) == ("paths.deny", 'path = src/.env: denied by ".env"')
    assert on_path("/home/me/.env", outside=("/home/**",), deny=(".env",)).rule == "paths.deny"
    assert on_path("src", allow=()).do is Ruling.DENY
    assert on_path("src/\ud800", deny=("other", "docs/*")).do is Ruling.ALLOW


def test_a_link_is_judged_by_where_it_leads() -> None:
    links = {"/srv/shop/link/x": "/etc/x", "/srv/shop/in/../y": "/srv/y"}
    ground = RuleContext("/srv/shop", real=lambda path: links.get(path, policy.normal(path)))
    assert on_path("a", ground).do is Ruling.ALLOW
    found = on_path("link/x", ground)
    assert found.why == "path = /etc/x, where it really leads: outside the workspace"
    assert on_path("in/../y", ground).do is Ruling.DENY
    assert on_path("link/x", ground, deny=("link",)).rule == "paths.deny"


def test_relative_paths_are_meant_from_where_the_call_is_made() -> None:
    ground = RuleContext("/srv/shop", here="/srv/shop/sub")
    assert on_path("../a", ground).do is Ruling.ALLOW
    assert on_path("../../a", ground).do is Ruling.DENY
    assert on_path("a", ground, allow=("sub/a",)).do is Ruling.ALLOW


@pytest.mark.parametrize(
    "name",
    [
        "path",
        "paths",
        "file",
        "file_path",
        "filePath",
        "FILE_PATH",
        "output-file",
        "dir",
        "cwd",
        "src",
        "dest",
        "directory",
        "directories",
        "log_directories",
        "workDir",
        "folder",
        "filename",
    ],
)
def test_an_argument_is_a_path_by_its_name(name: str) -> None:
    given = Rules(paths=PathRules())
    for value in ("/etc/passwd", ["a", "/etc/passwd"]):
        assert judge_call(given, TOOL, Effect.NONE, {name: value}, GROUND).do is Ruling.DENY
    assert judge(given, edits=[{name: "/etc/passwd"}]).do is Ruling.DENY
    assert judge(given, options=({"inner": {name: PurePosixPath("/etc/passwd")}},)).do is Ruling.DENY


def test_other_arguments_are_no_paths_unless_declared() -> None:
    given = Rules(paths=PathRules())
    assert judge(given, text="/etc/passwd", profile="/x", url="/y", path=None, file=7).do is Ruling.ALLOW
    assert judge(given, path="https://example.org/../x").do is Ruling.ALLOW
    declared = Rules(paths=PathRules(arguments=("goal",)))
    assert judge(declared, goal="/etc/passwd").do is Ruling.DENY


names = st.text("ab.~ü", min_size=1, max_size=3)


@given(st.lists(names | st.sampled_from(["..", ".", "", "a"]), max_size=8), st.booleans())
def test_paths_are_normalised_as_the_system_would(parts: list[str], absolute: bool) -> None:
    text = ("/" if absolute else "") + "/".join(parts)
    if any(part.startswith("~") for part in parts):
        return
    place = policy.normal(policy.absolute(text, "/srv/shop"))
    assert place == posixpath.normpath(posixpath.join("/srv/shop", text)).replace("//", "/")
    inside = policy.relative(place, "/srv/shop")
    assert (on_path(text).do is Ruling.ALLOW) == (inside is not None)
    if inside is not None:
        assert posixpath.normpath(posixpath.join("/srv/shop", inside)) == place


@given(st.lists(st.sampled_from(["..", "a", "~", "~/..", "/", "shop", "work"]), max_size=8))
def test_nothing_climbs_out_of_a_home_folder_into_the_workspace(parts: list[str]) -> None:
    assert on_path("/".join(["~", *parts])).do is Ruling.DENY


def test_the_root_of_the_file_system_as_a_workspace() -> None:
    assert policy.relative("/", "/") == "."
    assert policy.relative("/a/b", "/") == "a/b"


# Commands


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf /",
        "  rm   -rf x",
        "cd x && rm -rf .",
        "sudo rm -rf x",
        "/bin/rm -rf x",
        'sh -c "rm -rf x"',
        "(rm -rf x)",
        "r\\m -rf x",
        "'rm' -rf x",
        ["rm", "-rf", "x"],
        ["sh", "-c", "a;rm -rf x"],
        "echo `rm -rf x`",
        "x\nrm -rf y",
    ],
)
def test_a_denied_command_is_found(command: Any) -> None:
    given = rules(commands={"deny": ["rm -rf"]})
    found = judge(given, command=command)
    assert (found.do, found.rule) == (Ruling.DENY, "commands.deny")
    assert found.why == 'the command in command is denied by "rm -rf"'


@pytest.mark.parametrize("command", ["rm -r x", "farm -rf", "rm -rfx", "echo", "", None, 7, []])
def test_another_command_is_not(command: Any) -> None:
    assert judge(rules(commands={"deny": ["rm -rf"]}), command=command).do is Ruling.ALLOW


def test_patterns_for_commands() -> None:
    given = rules(
        commands={"deny": ["git push * --force"], "ask": ["git push", "curl *"], "arguments": ["line"]}
    )
    assert judge(given, cmd="git push origin --force").do is Ruling.DENY
    assert judge(given, argv=["git", "push", "origin"]).do is Ruling.ASK
    assert judge(given, line="curl x | sh").rule == "commands.ask"
    assert judge(given, args=["curl", "x"]).do is Ruling.ASK
    assert judge(given, text="git push").do is Ruling.ALLOW


# Limits


def test_limits() -> None:
    given = rules(limits={"calls-per-tool": 2, "argument-bytes": 20})
    assert judge_call(given, TOOL, Effect.NONE, {}, GROUND, earlier=1).do is Ruling.ALLOW
    once = rules(limits={"calls-per-tool": 1})
    assert judge_call(once, TOOL, Effect.NONE, {}, GROUND).do is Ruling.ALLOW
    found = judge_call(given, TOOL, Effect.NONE, {}, GROUND, earlier=2)
    assert (found.rule, found.how) == (
        "limits.calls-per-tool",
        "set calls-per-tool = 3 or more in [rules.limits] of takeback.toml",
    )
    assert judge(given, text="x" * 9).do is Ruling.ALLOW
    assert judge(given, text="x" * 10).rule == "limits.argument-bytes"


def test_a_limit_is_zero_or_more() -> None:
    assert rules(limits={"steps": 0}) == Rules()
    with pytest.raises(msgspec.ValidationError, match="steps"):
        rules(limits={"steps": -1})


def test_what_is_no_json_has_a_size_too() -> None:
    given = rules(limits={"argument-bytes": 40})
    assert judge(given, thing=PurePosixPath("x" * 50)).do is Ruling.DENY
    assert judge(given, thing="\ud800" * 50).do is Ruling.DENY
    assert judge(given, thing="\ud800").do is Ruling.ALLOW


def test_the_most_severe_finding_decides() -> None:
    given = rules(tools={"ask": ["*"]}, commands={"deny": ["rm"]})
    assert judge(given, command="rm x").rule == "commands.deny"


# Plans


def plan_of(*steps: dict[str, Any]) -> Plan:
    return parse_plan(json.dumps({"name": "p", "steps": [{"tool": TOOL, **step} for step in steps]}).encode())


def use(step: PlannedStep) -> Use:
    return Use(step.tool, step.effect or Effect.RESTORABLE)


def test_a_plan_names_each_broken_rule_with_its_step() -> None:
    plan = plan_of(
        {"id": "b", "after": ["a"], "args": {"path": "../x", "command": "rm -rf ."}},
        {"id": "a", "args": {"path": "ok"}},
        {"id": "c", "effect": "irreversible"},
    )
    given = rules(commands={"deny": ["rm"]}, limits={"steps": 2, "calls-per-tool": 2})
    broken = policy.check_plan(plan, given, use, GROUND)
    assert [(found.step, found.rule) for found in broken] == [
        ("", "limits.steps"),
        ("b", "paths.outside"),
        ("b", "commands.deny"),
        ("c", "limits.calls-per-tool"),
    ]
    assert broken[0] == Broken(
        "",
        "limits.steps",
        "the plan has 3 steps; at most 2 are allowed",
        "set steps = 3 or more in [rules.limits] of takeback.toml",
    )
    assert all(found.how_to_allow for found in broken)
    assert [found.step for found in policy.requests(plan, given, use, GROUND)] == ["c"]


def test_on_autopilot_a_question_is_a_refusal() -> None:
    plan = plan_of({"id": "c", "effect": "irreversible"})
    assert policy.check_plan(plan, Rules(), use, GROUND) == []
    assert [b.rule for b in policy.check_plan(plan, Rules(), use, GROUND, autopilot=True)] == [
        "effects.irreversible"
    ]


def test_on_autopilot_a_plan_has_no_undeclared_tools() -> None:
    def unknown(step: PlannedStep) -> Use:
        return Use(step.tool, Effect.UNKNOWN, undeclared=step.id == "a")

    plan = plan_of({"id": "a"}, {"id": "b"})
    assert policy.check_plan(plan, Rules(), unknown, GROUND) == []
    refused = policy.check_plan(plan, Rules(), unknown, GROUND, autopilot=True)
    assert [(b.step, b.rule) for b in refused] == [("a", "autopilot")]
    by_hand = policy.check_plan(
        plan, Rules(), lambda step: Use(step.tool, Effect.UNKNOWN), GROUND, autopilot=True
    )
    assert by_hand == [], "what it does is unknown, but somebody said so"
    allowed = rules(effects={"unknown": "allow"})
    assert policy.check_plan(plan, allowed, unknown, GROUND, autopilot=True) == []


def test_a_reference_is_not_judged_before_it_is_known() -> None:
    plan = plan_of({"id": "a"}, {"id": "b", "args": {"path": {"$result": "a", "path": "/etc"}}})
    assert policy.check_plan(plan, Rules(), use, GROUND) == []


def test_a_literal_is_judged() -> None:
    plan = plan_of({"id": "a", "args": {"path": {"$literal": "/etc"}}})
    assert [b.rule for b in policy.check_plan(plan, Rules(), use, GROUND)] == ["paths.outside"]


def test_plans_stay_inside_even_without_rules() -> None:
    plan = plan_of({"id": "a", "args": {"path": "/etc/x"}})
    assert [b.rule for b in policy.check_plan(plan, Rules(), use, GROUND)] == ["paths.outside"]
    own = rules(paths={"outside": ["/etc"]})
    assert for_plans(own) is own
    assert policy.check_plan(plan, own, use, GROUND) == []


def test_paths_among_arguments() -> None:
    args = {
        "file_path": "a.txt",
        "edits": [{"path": "b.txt"}],
        "url": "https://x/c",
        "target": "s3://x/d",
        "n": 1,
    }
    assert set(paths_in(args)) >= {"a.txt", "b.txt"}
    assert not {"https://x/c", "s3://x/d"} & set(paths_in(args, ["url", "target"]))
    assert list(paths_in({"mine": "e.txt"}, ["mine"])) == ["e.txt"]


def test_names_that_may_mean_anything_are_paths_where_they_look_like_one() -> None:
    args = {
        "source": "/v/a",
        "to": ["../b", "someone@example.org"],
        "targetUri": "file:///v/c%20%C3%A4%zz",
        "uri": "https://example.org",
        "url": "/route",
        "link_url": "file://localhost/v/e",
        "output": "one line",
        "into": b"~/f",
        "input": PurePosixPath("/v/g"),
        "root": 7,
    }
    assert set(paths_in(args)) == {"/v/a", "../b", "/v/c ä%zz", "/v/e", "~/f", "/v/g"}
    assert list(paths_in({"source": "/v/a"}, ["source"])) == ["/v/a"]
    assert judge(rules(paths={"deny": ["/v"], "outside": ["/v"]}), uri="file:///v").rule == "paths.deny"


@pytest.mark.parametrize(
    "effects, commands, found, allowed, rule",
    [
        ({}, {}, Effect.UNKNOWN, False, ""),
        ({}, {}, Effect.IRREVERSIBLE, False, ""),
        ({"unknown": Ruling.ALLOW}, {}, Effect.UNKNOWN, False, ""),
        ({"unknown": Ruling.ASK}, {}, Effect.UNKNOWN, False, "ask effects.unknown"),
        ({"unknown": Ruling.DENY}, {}, Effect.IRREVERSIBLE, False, ""),
        ({"irreversible": Ruling.ASK}, {}, Effect.IRREVERSIBLE, False, "ask effects.irreversible"),
        ({"irreversible": Ruling.DENY}, {}, Effect.IRREVERSIBLE, True, ""),
        ({"none": Ruling.DENY}, {}, Effect.NONE, False, ""),
        ({}, {"ask": ("rm",)}, Effect.NONE, True, "ask commands.ask"),
        ({"unknown": Ruling.ASK}, {"deny": ("rm",)}, Effect.UNKNOWN, False, "deny commands.deny"),
    ],
)
def test_of_a_command_that_is_typed_only_what_is_written_down_holds_it(
    effects: dict[str, Any], commands: dict[str, tuple[str, ...]], found: Effect, allowed: bool, rule: str
) -> None:
    rules = Rules(effects=EffectRules(**effects), commands=CommandRules(**commands))
    ruling = judge_typed(rules, "sudo rm -rf x", Foreseen(found, "why"), allowed=allowed)
    assert f"{ruling.do} {ruling.rule}".removeprefix("allow ") == rule
