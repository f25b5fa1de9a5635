"""Commands that the rules allow by their words. Who knows the commands of a line is handed in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from takeback.core.events import Effect
from takeback.core.plan import PlannedStep, parse_plan
from takeback.core.policy import (
    ALLOWED,
    Decision,
    Foreseen,
    RuleContext,
    Use,
    fits,
    judge_call,
    requests,
)
from takeback.core.rules import CommandRules, EffectRules, Local, Rules, Ruling

from .test_foreseen import knows_push


def _parts(command: str | Sequence[str]) -> list[str]:
    line = command if isinstance(command, str) else " ".join(command)
    return [part.strip() for part in line.split("&&")]


def knows_each_push(command: str | Sequence[str]) -> Foreseen:
    """Know that git push cannot be taken back, and look at the commands of a line one by one."""
    pushes = tuple(part for part in _parts(command) if part.startswith("git push"))
    if not pushes:
        return Foreseen(irreversible=())
    pattern = next((part for part in pushes if part.startswith("git push o")), "")
    return Foreseen(Effect.IRREVERSIBLE, "it pushes", pushes, pattern)


GROUND = RuleContext("/work", foresee=knows_each_push)
MAKES = RuleContext("/work", foresee=knows_push)


def judge(
    line: str, effect: Effect = Effect.RESTORABLE, ground: RuleContext = GROUND, **more: Any
) -> Decision:
    effects = EffectRules(irreversible=more.pop("irreversible", Ruling.ASK))
    args = more.pop("args", {"command": line})
    uncaptured = more.pop("uncaptured", "")
    rules = Rules(commands=CommandRules(**more), effects=effects)
    return judge_call(rules, "m:f", effect, args, ground, uncaptured=uncaptured)


def test_of_what_is_not_known_nothing_is_permitted() -> None:
    assert not Foreseen(Effect.IRREVERSIBLE, "it pushes").is_permitted(["git push", "*"])
    unread = RuleContext("/work", foresee=knows_push)
    assert judge("git push", ground=unread, allow=("git push", "*")).do is Ruling.ASK
    assert Foreseen(irreversible=()).is_permitted([])


def test_a_pattern_permits_a_command_that_begins_so() -> None:
    assert Foreseen(irreversible=("git push origin",)).is_permitted(["git push"])
    assert not Foreseen(irreversible=("ssh host git push origin",)).is_permitted(["git push"])


def test_what_is_allowed_is_not_asked_about() -> None:
    found = judge("git push origin main", allow=("git push origin *",))
    assert (found.do, found.rule) == (Ruling.ALLOW, ALLOWED)
    assert judge("git push origin main", allow=("git push",), irreversible=Ruling.DENY).do is Ruling.ALLOW
    assert judge("git push && git push origin", allow=("git push",)).do is Ruling.ALLOW


@pytest.mark.parametrize("line", ["git push other", "git push origin && git push other"])
def test_each_command_of_a_line_has_to_be_named(line: str) -> None:
    assert judge(line, allow=("git push origin",)).do is Ruling.ASK


def test_each_command_of_a_call_has_to_be_named() -> None:
    both = {"command": "git push origin", "script": "git push other"}
    assert judge("", args=both, allow=("git push origin",)).do is Ruling.ASK
    assert judge("", args=both, allow=("git push origin", "git push other")).do is Ruling.ALLOW


def test_only_what_is_irreversible_by_a_command_is_allowed_by_its_words() -> None:
    plan = parse_plan(b'{"name": "x", "steps": [{"id": "a", "tool": "m:f", "args": {"command": "ls"}}]}')
    bare = parse_plan(b'{"name": "x", "steps": [{"id": "a", "tool": "m:f"}]}')

    def use(_: PlannedStep) -> Use:
        return Use("m:f", Effect.IRREVERSIBLE, because="it says so")

    assert requests(plan, Rules(), use, GROUND), "no words are allowed"
    assert requests(bare, Rules(commands=CommandRules(allow=("ls",))), use, GROUND), "there is no command"
    unknown = Rules(commands=CommandRules(allow=("make",)), effects=EffectRules(unknown=Ruling.ASK))
    found = judge_call(unknown, "m:f", Effect.RESTORABLE, {"command": "make all"}, MAKES)
    assert (found.do, found.rule) == (Ruling.ASK, "effects.unknown")
    read = RuleContext("/work", foresee=lambda _: Foreseen(Effect.UNKNOWN, "who knows", ()))
    assert judge_call(unknown, "m:f", Effect.RESTORABLE, {"command": "make"}, read).rule == "effects.unknown"
    blind = RuleContext("/work")
    assert requests(plan, Rules(commands=CommandRules(allow=("ls",))), use, blind), "nobody knows commands"


def test_the_pattern_that_is_suggested_is_of_a_command_that_can_be_named() -> None:
    found = judge("", args={"command": "git push", "script": "git push origin"})
    assert "git push origin" in found.how


def test_a_path_that_was_captured_does_not_stand_in_the_way() -> None:
    both = {"command": "git push", "path": "a.txt"}
    assert judge("", args=both, allow=("git push",)).do is Ruling.ALLOW


def test_the_reason_is_the_commands_or_the_paths_or_none() -> None:
    approve = "a human has to approve it"
    assert judge("ls", Effect.IRREVERSIBLE).why == f"m:f is irreversible: {approve}"
    assert judge("git push").why == f"this command is irreversible (it pushes): {approve}"
    why = judge("git push", uncaptured="/v is too large").why
    assert why == f"this command is irreversible (it pushes): {approve}"


def test_ask_and_deny_count_more() -> None:
    assert judge("git push", allow=("git push",), ask=("git push",)).rule == "commands.ask"
    assert judge("git push", allow=("git push",), deny=("git*",)).do is Ruling.DENY


def test_a_path_that_cannot_be_captured_is_not_allowed_by_a_command() -> None:
    both = {"command": "git push", "path": "/dev/sda"}
    assert judge("", args=both, allow=("git push",), uncaptured="/dev/sda is a device").do is Ruling.ASK
    assert judge("git push", allow=("git push",), uncaptured="/v is too large").do is Ruling.ALLOW


def test_how_to_allow_it_names_the_command() -> None:
    assert (
        judge("git push origin").how == 'add "git push origin" to allow in [rules.commands] of takeback.toml'
    )
    assert judge("git push").how == 'set irreversible = "allow" in [rules.effects] of takeback.toml'
    asked = judge("ls", Effect.IRREVERSIBLE)
    assert (asked.do, asked.rule) == (Ruling.ASK, "effects.irreversible")
    assert judge("ls", Effect.IRREVERSIBLE, allow=("ls",)).do is Ruling.ASK, (
        "it is the tool that is irreversible"
    )


def test_a_path_is_the_reason() -> None:
    found = judge("", Effect.IRREVERSIBLE, args={"path": "/dev/sda"}, uncaptured="/dev/sda was not captured")
    assert "m:f is irreversible (/dev/sda was not captured): a human has to approve it" in found.why


@pytest.mark.parametrize(
    "pattern, command, somewhere, begins",
    [
        ("git push", "git push origin", True, True),
        ("git push", "sudo git push", True, False),
        ("git pus", "git push", False, False),
        ("git * main", "git push origin main", True, True),
        ("git  push", "git 'push'", True, True),
        ("push", "git push", True, False),
    ],
)
def test_what_a_pattern_means(pattern: str, command: str, somewhere: bool, begins: bool) -> None:
    assert fits(pattern, command) is somewhere
    assert fits(pattern, command, begins=True) is begins


def test_what_is_the_sessions_own_is_unknown_unless_set() -> None:
    assert EffectRules().local is Local.UNKNOWN
