"""The safety rules of takeback.toml, as data. policy.py judges calls by them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0)]


class Ruling(StrEnum):
    """What happens to a call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    pass


class PathRules(_Table, frozen=True):
    """The files a call may name. Without `allow`, all inside the workspace; outside, only what `outside` names."""

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    """More arguments that are paths, in addition to the usual names (path, file, folder, …)."""


class ToolRules(_Table, frozen=True):
    """The tools that may be called. Without `allow`, all that are not denied."""

    allow: tuple[str, ...] | None = None
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class Local(StrEnum):
    """How effects that stay with this session are counted."""

    UNKNOWN = "unknown"
    IRREVERSIBLE = "irreversible"


class EffectRules(_Table, frozen=True):
    """What happens to a call, by its effect."""

    none: Ruling = Ruling.ALLOW
    restorable: Ruling = Ruling.ALLOW
    transactional: Ruling = Ruling.ALLOW
    compensable: Ruling = Ruling.ALLOW
    deferred: Ruling = Ruling.ALLOW
    irreversible: Ruling | None = None
    """If not set, a call needs approval; a command that a human runs is only reported."""
    local: Local = Local.UNKNOWN
    """The effect of what stays with this session: its own processes, servers here, its containers."""
    unknown: Ruling | None = None
    """If not set, allowed; but an undeclared function is refused on autopilot."""


class CommandRules(_Table, frozen=True):
    """Commands that a tool may not run, or only with approval. `*` stands for anything.

    A command in `allow` runs although it cannot be taken back; `ask` and `deny` take precedence.
    """

    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    """More arguments that are commands, in addition to command, cmd, argv and the like."""
    allow: tuple[str, ...] = ()


class LimitRules(_Table, frozen=True):
    """Limits. Zero means no limit."""

    steps: Count = 0
    calls_per_tool: Count = 0
    argument_bytes: Count = 0


class PlanRuling(StrEnum):
    """Which plans may run."""

    ANY = "any"
    APPROVED = "approved"


class Rules(_Table, frozen=True):
    """[rules] of takeback.toml. Every part may be missing."""

    plans: PlanRuling = PlanRuling.ANY
    """With `approved`, a plan runs only if a human has approved it as a whole."""

    paths: PathRules | None = None
    tools: ToolRules = ToolRules()
    effects: EffectRules = EffectRules()
    commands: CommandRules = CommandRules()
    limits: LimitRules = LimitRules()


def for_plans(rules: Rules) -> Rules:
    """Return the rules for plans: without rules on paths, a plan has to stay inside the workspace.

    Code that a person wrote may name a path elsewhere, unless a rule forbids it. A plan is data, often a model's.
    """
    return rules if rules.paths is not None else msgspec.structs.replace(rules, paths=PathRules())
