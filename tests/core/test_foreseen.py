"""A tool that is given an irreversible command is judged as irreversible. Who knows commands is handed in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from takeback.core.events import Effect
from takeback.core.policy import Foreseen, RuleContext, Use, commands_in, foreseen, judge_call, paths_in
from takeback.core.rules import CommandRules, EffectRules, Rules, Ruling


def knows_push(command: str | Sequence[str]) -> Foreseen:
    words = command.split() if isinstance(command, str) else list(command)
    if words[:1] == ["make"]:
        return Foreseen(Effect.UNKNOWN, f"{words[1]} is made")
    return Foreseen(Effect.IRREVERSIBLE, "it pushes") if words[:2] == ["git", "push"] else Foreseen()


GROUND = RuleContext("/work", foresee=knows_push)


def effect(args: Mapping[str, Any], own: Effect = Effect.RESTORABLE, ground: RuleContext = GROUND) -> Effect:
    return foreseen(Use("m:f", own), args, CommandRules(arguments=("recipe",)), ground).effect


@pytest.mark.parametrize(
    "args",
    [
        {"command": "git push origin"},
        {"cmd": ["git", "push"]},
        {"options": {"shell": "git push"}},
        {"args": ["push"], "command": "git"},
        {"recipe": "git push"},
        {"command": "ls", "script": "git push"},
    ],
)
def test_a_command_that_cannot_be_taken_back_raises_the_effect(args: dict[str, Any]) -> None:
    assert effect(args) is Effect.IRREVERSIBLE
    assert effect(args, Effect.NONE) is Effect.IRREVERSIBLE


@pytest.mark.parametrize(
    "args",
    [{}, {"command": "git status"}, {"text": "git push"}, {"command": ["echo", "git push"]}, {"command": 7}],
)
def test_anything_else_leaves_it(args: dict[str, Any]) -> None:
    assert effect(args) is Effect.RESTORABLE


def test_a_tool_that_declares_how_it_is_taken_back_has_thought_of_it() -> None:
    assert effect({"command": "git push"}, Effect.COMPENSABLE) is Effect.COMPENSABLE


def test_a_command_that_cannot_be_judged_makes_it_unknown() -> None:
    unknown = {"command": "make all"}
    assert (
        effect(unknown) is effect(unknown, Effect.NONE) is effect(unknown, Effect.UNKNOWN) is Effect.UNKNOWN
    )
    assert effect(unknown, Effect.IRREVERSIBLE) is Effect.IRREVERSIBLE
    assert effect({"command": "git status"}, Effect.UNKNOWN) is Effect.UNKNOWN, (
        "it may do more than its command"
    )
    for both in ({"cmd": "make all", "script": "git push"}, {"cmd": "git push", "script": "make all"}):
        use = foreseen(Use("m:f", Effect.RESTORABLE), both, CommandRules(), GROUND)
        assert (use.effect, use.because) == (Effect.IRREVERSIBLE, "it pushes"), "the worst of them counts"
    said = foreseen(Use("m:f", Effect.UNKNOWN), unknown, CommandRules(), GROUND)
    assert said.because == "all is made", "also where the effect is no worse than its own"
    two = {"cmd": "make one", "script": "make two"}
    assert foreseen(Use("m:f", Effect.RESTORABLE), two, CommandRules(), GROUND).because == "one is made"


def test_unknown_is_allowed_unless_a_rule_says_otherwise() -> None:
    def judged(do: Ruling | None, undeclared: bool) -> tuple[Ruling, str]:
        rules = Rules(effects=EffectRules(unknown=do))
        found = judge_call(rules, "m:f", Effect.UNKNOWN, {}, GROUND, undeclared=undeclared)
        return found.do, found.rule

    assert (
        judged(None, False) == judged(Ruling.ALLOW, False) == judged(Ruling.ALLOW, True) == (Ruling.ALLOW, "")
    )
    assert judged(None, True) == (Ruling.DENY, "autopilot")
    for undeclared in (False, True):
        assert judged(Ruling.ASK, undeclared) == (Ruling.ASK, "effects.unknown")
        assert judged(Ruling.DENY, undeclared) == (Ruling.DENY, "effects.unknown")
    declared = judge_call(Rules(), "m:f", Effect.RESTORABLE, {}, GROUND, undeclared=True)
    assert declared.do is Ruling.ALLOW


def test_a_refusal_shows_how_to_declare_a_function() -> None:
    refused = judge_call(Rules(), "shop.mail:send", Effect.UNKNOWN, {}, GROUND, undeclared=True)
    assert 'run.call(send, …, effect="…") or takeback.action(effect="…")(send)' in refused.hint
    assert refused.how == 'set unknown = "allow" in [rules.effects] of takeback.toml'


def test_without_anybody_who_knows_commands_nothing_is_raised() -> None:
    assert effect({"command": "git push"}, ground=RuleContext("/work")) is Effect.RESTORABLE


def test_the_gate_asks_and_says_why() -> None:
    found = judge_call(Rules(), "m:run", Effect.RESTORABLE, {"command": "git push"}, GROUND)
    assert (found.do, found.rule) == (Ruling.ASK, "effects.irreversible")
    assert "it pushes" in found.why
    denied = Rules(effects=EffectRules(irreversible=Ruling.DENY))
    assert judge_call(denied, "m:run", Effect.NONE, {"command": "git push"}, GROUND).do is Ruling.DENY


def test_commands_are_lines_or_lists() -> None:
    assert list(commands_in({"command": "a b"})) == ["a b"]
    assert list(commands_in({"argv": ["a", "b"]})) == [["a", "b"]]
    assert list(commands_in({"path": "a"})) == []
    # A list under a name in the plural may be the words of one command, or several lines.
    assert list(commands_in({"commands": ["a b", "c"]})) == [["a b", "c"], "a b", "c"]
    assert list(commands_in({"commands": ["a b"]})) == ["a b"]
    assert list(commands_in({"sql": "x", "rawSql": "y"})) == [["sql:", "--", "x"], ["sql:", "--", "y"]]
    assert list(commands_in({"query": "DROP TABLE x"})) == [["sql:", "--", "DROP TABLE x"]]
    assert list(commands_in({"query": "drop me a line", "statement": "update on the plan"})) == []


def test_of_a_table_the_names_are_paths_and_what_they_name_are_commands() -> None:
    files = {"files": {"src/a.py": "/dev/sda", "mode": "x"}}
    assert list(paths_in(files)) == ["src/a.py"] and list(commands_in(files)) == []
    assert list(commands_in({"commands": {"a": "ls", "b": "git push"}})) == [
        ["ls", "git push"],
        "ls",
        "git push",
    ]
    assert next(iter(commands_in({"cmd": {"program": "git", "args": ["push"]}}))) == ["git", "push"]
    assert list(commands_in({"arguments": {"text": "git push"}})) == []
