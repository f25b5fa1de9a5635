"""A tool that is given an irreversible command is judged as irreversible. Who knows commands is handed in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from takeback.core.events import Effect
from takeback.core.policy import Ground, Use, commands_in, foreseen, judge_call
from takeback.core.rules import CommandRules, Do, EffectRules, Rules


def knows_push(command: str | Sequence[str]) -> str:
    words = command.split() if isinstance(command, str) else list(command)
    return "it pushes" if words[:2] == ["git", "push"] else ""


GROUND = Ground("/work", foresee=knows_push)


def effect(args: Mapping[str, Any], own: Effect = Effect.RESTORABLE, ground: Ground = GROUND) -> Effect:
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


def test_without_anybody_who_knows_commands_nothing_is_raised() -> None:
    assert effect({"command": "git push"}, ground=Ground("/work")) is Effect.RESTORABLE


def test_the_gate_asks_and_says_why() -> None:
    found = judge_call(Rules(), "m:run", Effect.RESTORABLE, {"command": "git push"}, GROUND)
    assert (found.do, found.rule) == (Do.ASK, "effects.irreversible")
    assert "it pushes" in found.why
    denied = Rules(effects=EffectRules(irreversible=Do.DENY))
    assert judge_call(denied, "m:run", Effect.NONE, {"command": "git push"}, GROUND).do is Do.DENY


def test_commands_are_lines_or_lists() -> None:
    assert list(commands_in({"command": "a b"})) == ["a b"]
    assert list(commands_in({"argv": ["a", "b"]})) == [["a", "b"]]
    assert list(commands_in({"path": "a"})) == []
    # A list under a name in the plural may be the words of one command, or several lines.
    assert list(commands_in({"commands": ["a b", "c"]})) == [["a b", "c"], "a b", "c"]
    assert list(commands_in({"commands": ["a b"]})) == ["a b"]
    assert list(commands_in({"sql": "x", "rawSql": "y"})) == [["sql:", "x"], ["sql:", "y"]]
    assert list(commands_in({"query": "DROP TABLE x"})) == [["sql:", "DROP TABLE x"]]
    assert list(commands_in({"query": "drop me a line", "statement": "update on the plan"})) == []
