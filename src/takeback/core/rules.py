"""The safety rules of takeback.toml, as data. How a call is judged by them is in policy.py."""

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
    """Which files a call may name. Without `allow` all inside the workspace; outside only what `outside` names."""

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    """Arguments that are paths, besides those that are called so (path, file, folder, …)."""


class ToolRules(_Table, frozen=True):
    """Which tools may be called. Without `allow` all that are not denied."""

    allow: tuple[str, ...] | None = None
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class Local(StrEnum):
    """What counts as what."""

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
    """Where nobody has set it, a call is asked about; of a command that a human runs it is said."""
    local: Local = Local.UNKNOWN
    """What that counts as which stays with this session: its own processes, servers here, its containers."""
    unknown: Ruling | None = None
    """Where nobody has set it, it is allowed; but an undeclared function is refused on autopilot."""


class CommandRules(_Table, frozen=True):
    """Commands that a tool may not run, or only when asked. `*` stands for anything.

    What is allowed runs although it cannot be taken back; a word of `ask` or `deny` counts more.
    """

    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    """Arguments that are commands, besides command, cmd, argv and their like."""
    allow: tuple[str, ...] = ()


class LimitRules(_Table, frozen=True):
    """How much. Zero means no limit."""

    steps: Count = 0
    calls_per_tool: Count = 0
    argument_bytes: Count = 0


class Rules(_Table, frozen=True):
    """[rules] of takeback.toml. Every part may be missing."""

    paths: PathRules | None = None
    tools: ToolRules = ToolRules()
    effects: EffectRules = EffectRules()
    commands: CommandRules = CommandRules()
    limits: LimitRules = LimitRules()


def for_plans(rules: Rules) -> Rules:
    """The rules as plans have to keep them: without a word on paths, they stay inside the workspace.

    Code that a person wrote may name a path elsewhere, unless a rule forbids it. A plan is data, often a model's.
    """
    return rules if rules.paths is not None else msgspec.structs.replace(rules, paths=PathRules())
