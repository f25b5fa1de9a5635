"""Safety rules: what a call may do, decided only from its name, its effect and its arguments.

The rules are in takeback.toml, which an agent cannot loosen by itself. They are a seat belt, not a sandbox: they
judge what a call says it is going to do, not what the tool then does. A path is recognised by the name of its
argument, and a command by its words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from takeback.core import globs, tool_arguments
from takeback.core.events import Effect
from takeback.core.plan import Plan, PlannedStep, in_order, known_part
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

FILE = "takeback.toml"
ALLOWED = "commands.allow"
"""The rule with which a human allowed a command by its words, even on autopilot."""
_SEVERITY = list(Ruling)


class Foreseen(msgspec.Struct, frozen=True):
    """What is known about a command before it runs."""

    effect: Effect = Effect.NONE
    why: str = ""
    """The reason, for people, why it cannot be taken back or is unknown."""
    irreversible: tuple[str, ...] | None = None
    """Each command in it that cannot be taken back. None if they are unknown: then no pattern permits it."""
    pattern: str = ""
    """A pattern that would permit the first of them; empty if there is none."""

    def is_permitted(self, patterns: Sequence[str]) -> bool:
        """Return whether these patterns permit every command in it that cannot be taken back."""
        return self.irreversible is not None and all(
            any(fits(pattern, command, begins=True) for pattern in patterns) for command in self.irreversible
        )


Foresee = Callable[[str | Sequence[str]], Foreseen]
"""Judges a command: a line of shell, or a program with its arguments."""


class RuleContext(msgspec.Struct, frozen=True):
    """The surroundings in which the rules are applied."""

    root: str
    """The workspace, absolute and without links."""

    here: str = ""
    """The folder that relative paths start from; if empty, the workspace."""

    aliases: Sequence[tuple[str, str]] = ()
    """Short names from [tools] in takeback.toml, each with its tool."""

    real: Callable[[str], str] | None = None
    """Resolves the links in a path. Without it a path is judged only as written."""

    foresee: Foresee | None = None
    """Judges commands. Without it only the patterns of the rules count."""


class Decision(msgspec.Struct, frozen=True):
    """What happens to one call, by which rule, and how its owner could allow it."""

    do: Ruling = Ruling.ALLOW
    rule: str = ""
    why: str = ""
    how: str = ""
    hint: str = ""
    """What the author of the call can do about it without changing a rule."""


class Broken(msgspec.Struct, frozen=True):
    """A step of a plan that a rule does not allow."""

    step: str
    rule: str
    what: str
    how_to_allow: str


class Use(msgspec.Struct, frozen=True):
    """The tool of a step, as the rules see it."""

    name: str
    effect: Effect
    also: str = ""
    """Another name of the same function. Both have to be allowed."""
    because: str = ""
    """The command among its arguments that makes its effect worse than declared."""
    uncaptured: str = ""
    """The path among its arguments that makes its effect worse than declared."""
    undeclared: bool = False
    """True if it is not declared and runs on autopilot."""


def judge_call(
    rules: Rules,
    name: str,
    effect: Effect,
    args: Mapping[str, Any],
    ground: RuleContext,
    *,
    earlier: int = 0,
    uncaptured: str = "",
    undeclared: bool = False,
) -> Decision:
    """Return whether this call may run. `earlier` is how often the run has called this tool already.

    Positional arguments have to be given their names first: a path is recognised by the name of its argument.
    `undeclared` means that the tool is not declared and the run is on autopilot.
    """
    use = Use(name, effect, uncaptured=uncaptured, undeclared=undeclared)
    found = list(_findings(rules, use, args, ground, earlier))
    return max(found, key=lambda decision: _SEVERITY.index(decision.do), default=Decision())


def judge_typed(rules: Rules, line: str, found: Foreseen, *, allowed: bool) -> Decision:
    """Return what the rules say about a command that a human typed: only explicit rules hold it back.

    `allowed` means that all of it that cannot be taken back is on the list of allowed commands.
    """
    decisions = list(_by_command(rules.commands, "COMMAND", line))
    written = {Effect.UNKNOWN: rules.effects.unknown, Effect.IRREVERSIBLE: rules.effects.irreversible}
    if written.get(found.effect) is not None and not allowed:
        decisions += _by_effect(rules.effects, Use("this command", found.effect, because=found.why))
    return max(decisions, key=lambda decision: _SEVERITY.index(decision.do), default=Decision())


def check_plan(
    plan: Plan,
    rules: Rules,
    use_of: Callable[[PlannedStep], Use],
    ground: RuleContext,
    *,
    autopilot: bool = False,
) -> list[Broken]:
    """Return every step that breaks a rule, in the order in which the steps would run.

    An argument that refers to a result is not known yet; it is judged when its step is about to run. On autopilot
    there is no human to ask, so a step that needs approval counts as broken too.
    """
    refused = (Ruling.DENY, Ruling.ASK) if autopilot else (Ruling.DENY,)
    judged = _judged(plan, rules, use_of, ground, autopilot=autopilot)
    return [broken for do, broken in judged if do in refused]


def requests(
    plan: Plan, rules: Rules, use_of: Callable[[PlannedStep], Use], ground: RuleContext
) -> list[Broken]:
    """Return every step that will wait for a human's approval."""
    return [broken for do, broken in _judged(plan, rules, use_of, ground) if do is Ruling.ASK]


def _judged(
    plan: Plan,
    rules: Rules,
    use_of: Callable[[PlannedStep], Use],
    ground: RuleContext,
    *,
    autopilot: bool = False,
) -> Iterator[tuple[Ruling, Broken]]:
    most, rules = rules.limits.steps, for_plans(rules)
    if most and len(plan.steps) > most:
        what = f"the plan has {len(plan.steps):,} steps; at most {most:,} are allowed"
        yield Ruling.DENY, Broken("", "limits.steps", what, _raise("steps", len(plan.steps)))
    called: dict[str, int] = {}
    for step in in_order(plan):
        use = use_of(step)
        if use.undeclared and not autopilot:
            use = msgspec.structs.replace(use, undeclared=False)
        earlier = called.get(use.name, 0)
        called[use.name] = earlier + 1
        for found in _findings(rules, use, known_part(step.args), ground, earlier):
            yield found.do, Broken(step.id, found.rule, found.why, found.how)


def _findings(
    rules: Rules, use: Use, args: Mapping[str, Any], ground: RuleContext, earlier: int
) -> Iterator[Decision]:
    """Yield every reason why this call may not simply run."""
    use = foreseen(use, args, rules.commands, ground)
    for name in dict.fromkeys([use.name, use.also or use.name]):
        yield from _by_tool(rules.tools, name, ground)
    yield from _by_effect_of(rules, use, args, ground)
    if rules.paths is not None:
        for argument, path in tool_arguments.named_paths(args, rules.paths.arguments):
            yield from _by_path(rules.paths, argument, path, ground)
    for argument, command in _commands(args, rules.commands.arguments):
        yield from _by_command(rules.commands, argument, command)
    yield from _by_limit(rules.limits, use.name, args, earlier)


# Tools and effects


def _by_tool(rules: ToolRules, name: str, ground: RuleContext) -> Iterator[Decision]:
    # Only aliases from takeback.toml count; a plan could call anything "harmless".
    names = [name, *(alias for alias, target in ground.aliases if target == name)]
    for do, patterns in ((Ruling.DENY, rules.deny), (Ruling.ASK, rules.ask)):
        if pattern := _matching(patterns, names):
            why = f"{name} is denied" if do is Ruling.DENY else f"approval of {name} is required"
            yield Decision(do, f"tools.{do}", f'{why} by "{pattern}"', _take_out(pattern, str(do), "tools"))
    if rules.allow is not None and not _matching(rules.allow, names):
        yield Decision(
            Ruling.DENY, "tools.allow", f"{name} is not among the allowed tools", _add(name, "allow", "tools")
        )


def _matching(patterns: Sequence[str], names: Sequence[str]) -> str:
    for pattern in patterns:
        expression = ".*".join(map(re.escape, pattern.split("*")))
        if any(re.fullmatch(expression, name, re.DOTALL) for name in names):
            return pattern
    return ""


def _by_effect_of(rules: Rules, use: Use, args: Mapping[str, Any], ground: RuleContext) -> Iterator[Decision]:
    """Yield the decisions by effect, unless the effect is that of a command on the list of allowed commands."""
    if ground.foresee is None or not use.because or use.effect is not Effect.IRREVERSIBLE:
        yield from _by_effect(rules.effects, use)
        return
    patterns = rules.commands.allow
    found = [ground.foresee(command) for command in commands_in(args, rules.commands.arguments)]
    named = bool(use.uncaptured) and any(True for _ in paths_in(args))
    if patterns and found and not named and all(one.is_permitted(patterns) for one in found):
        yield Decision(Ruling.ALLOW, ALLOWED, "this command is among those that are allowed")
        return
    pattern = next((one.pattern for one in found if one.pattern), "")
    for decision in _by_effect(rules.effects, use):
        how = _add(pattern, "allow", "commands") if pattern else decision.how
        yield msgspec.structs.replace(decision, how=how)


def _by_effect(rules: EffectRules, use: Use) -> Iterator[Decision]:
    name, effect = use.name, use.effect
    do: Ruling | None = getattr(rules, effect)
    how = f'set {effect} = "allow" in [rules.effects] of {FILE}'
    if do is None and effect is Effect.IRREVERSIBLE:
        do = Ruling.ASK
    if do is None and use.undeclared:
        why = "its effect is unknown: it is not declared, and on autopilot no human sees what it does"
        yield Decision(Ruling.DENY, "autopilot", why, how, _declare(name))
    elif do in (Ruling.ASK, Ruling.DENY):
        why = "effects of this kind are denied" if do is Ruling.DENY else "a human has to approve it"
        # Not the shell is irreversible, but the command that it runs.
        what = f"this command is {effect} ({use.because})" if use.because else f"{name} is {effect}"
        what += f" ({use.uncaptured})" if use.uncaptured and not use.because else ""
        yield Decision(do, f"effects.{effect}", f"{what}: {why}", how)


def _declare(name: str) -> str:
    """Return how the caller can declare a function, even one of a library."""
    short = name.rpartition(":")[2]
    return (
        f'declare it: run.call({short}, …, effect="…") or takeback.action(effect="…")({short}), '
        f"with one of {Effect.NONE}, {Effect.RESTORABLE} and {Effect.IRREVERSIBLE}"
    )


# Paths


def paths_in(args: Mapping[str, Any], more: Sequence[str] = ()) -> Iterator[str]:
    """Yield every path among the arguments, as it was passed."""
    for _, text in tool_arguments.named_paths(args, more):
        if not tool_arguments.SCHEME.match(text):
            yield text


def _by_path(rules: PathRules, argument: str, path: str, ground: RuleContext) -> Iterator[Decision]:
    if tool_arguments.SCHEME.match(path):
        return  # a web page; file:// addresses have already become paths
    whole = absolute(path, ground.here or ground.root)
    places = {normal(whole): ""}
    if ground.real is not None:
        # Not the normal form: behind a link, `..` leads elsewhere than the text suggests.
        places.setdefault(ground.real(whole), ", where it really leads")
    for place, note in places.items():
        if found := _at_place(rules, argument, place, note, ground):
            yield found
            return


def _at_place(rules: PathRules, argument: str, place: str, note: str, ground: RuleContext) -> Decision | None:
    inside = relative(place, ground.root)
    shown = f"{argument} = {inside if inside is not None else place}{note}"
    name = (inside if inside is not None else place.lstrip("/")).encode("utf-8", "surrogatepass")
    for pattern in rules.deny:
        if globs.matcher([globs.expression(pattern.encode())])(name):
            how = _take_out(pattern, "deny", "paths")
            return Decision(Ruling.DENY, "paths.deny", f'{shown}: denied by "{pattern}"', how)
    if inside is None:
        if not globs.matcher(globs.expression(_from_top(p)) for p in rules.outside)(name):
            how = _add(place, "outside", "paths")
            return Decision(Ruling.DENY, "paths.outside", f"{shown}: outside the workspace", how)
    elif rules.allow is not None and not globs.matcher(globs.expression(p.encode()) for p in rules.allow)(
        name
    ):
        how = _add(inside, "allow", "paths")
        return Decision(Ruling.DENY, "paths.allow", f"{shown}: not among the allowed paths", how)
    return None


def _from_top(pattern: str) -> bytes:
    """Return a pattern for outside paths, anchored at the top of the file system."""
    return b"/" + pattern.lstrip("/").encode()


def absolute(path: str, here: str) -> str:
    """Return an absolute path. Home folders are unknown here: `~` becomes a folder of that name at the top."""
    if path.startswith("~"):
        return f"/{path}"
    return path if path.startswith("/") else f"{here}/{path}"


def normal(path: str) -> str:
    """Return an absolute path with `.` and `..` resolved textually. A path in a home folder stays there."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if parts and not parts[-1].startswith("~"):
                parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def relative(place: str, root: str) -> str | None:
    """Return the path relative to the root, or None if it is not at or below the root."""
    top = root.rstrip("/")
    if place == (top or "/"):
        return "."
    return place[len(top) + 1 :] if place.startswith(top + "/") else None


# Commands

_WORD_START = r"(?:^|(?<=[\s;&|(){}/`$=]))"
_WORD_END = r"(?=$|[\s;&|(){}`<>])"


FORESEEN = (Effect.NONE, Effect.RESTORABLE, Effect.UNKNOWN, Effect.IRREVERSIBLE)
"""Effects that a command among the arguments may make worse, from least to most care."""


def foreseen(use: Use, args: Mapping[str, Any], rules: CommandRules, ground: RuleContext) -> Use:
    """Return the use of a tool with the effect of a command among its arguments, if that is worse.

    If a tool declares how it is taken back, its own declaration counts.
    """
    if ground.foresee is None or use.effect not in FORESEEN:
        return use
    return worsened(use, map(ground.foresee, commands_in(args, rules.arguments)))


def worsened(use: Use, commands: Iterable[Foreseen]) -> Use:
    """Return the use with the effect of the worst of its commands, if that is worse than its own."""
    for found in commands:
        worse = FORESEEN.index(found.effect) - FORESEEN.index(use.effect)
        if found.why and (worse > 0 or (worse == 0 and not use.because)):
            use = msgspec.structs.replace(use, effect=found.effect, because=found.why)
    return use


def commands_in(args: Mapping[str, Any], more: Sequence[str] = ()) -> Iterator[str | list[str]]:
    """Yield every command among the arguments: a text is a line of shell, a list is a program with its arguments.

    SQL is judged as one more program.
    """
    seen: dict[str, list[str]] = {}
    for name, texts in tool_arguments.each_named(args, tool_arguments.COMMANDS, more):
        yield texts[0] if len(texts) == 1 else texts
        if len(texts) > 1 and tool_arguments.SEVERAL.include(name):
            yield from texts
        seen.setdefault(name, []).extend(texts)
    yield from ([tool_arguments.JUDGED_AS_SQL, "--", text] for text in tool_arguments.sql_in(args))
    if len(seen) > 1:
        # A program in one argument, and its arguments in another.
        yield [text for name in sorted(seen, key=lambda name: "arg" in name.lower()) for text in seen[name]]


def _commands(args: Mapping[str, Any], more: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield every command among the arguments with the name of its argument. A list of words is one command."""
    seen: dict[str, list[str]] = {}
    for argument, text in tool_arguments.named(args, tool_arguments.COMMANDS, more):
        seen.setdefault(argument, []).append(text)
    for argument, texts in seen.items():
        yield argument, " ".join(texts)


def fits(pattern: str, command: str, *, begins: bool = False) -> bool:
    """Return whether a pattern of the rules matches somewhere in a command, or only at its start if `begins`."""
    # Quotes and backslashes do not change the command: r\m, 'rm' and sh -c "rm …" are all rm.
    plain = " ".join(re.sub(r"[\"'\\]", "", command).split())
    body = ".*".join(map(re.escape, " ".join(pattern.split()).split("*")))
    start = "^" if begins else _WORD_START
    return re.search(start + body + _WORD_END, plain) is not None


def _by_command(rules: CommandRules, argument: str, command: str) -> Iterator[Decision]:
    for do, patterns in ((Ruling.DENY, rules.deny), (Ruling.ASK, rules.ask)):
        for pattern in patterns:
            if fits(pattern, command):
                what = f"the command in {argument}"
                why = f"{what} is denied" if do is Ruling.DENY else f"approval of {what} is required"
                how = _take_out(pattern, str(do), "commands")
                yield Decision(do, f"commands.{do}", f'{why} by "{pattern}"', how)


# Limits


def _by_limit(rules: LimitRules, name: str, args: Mapping[str, Any], earlier: int) -> Iterator[Decision]:
    if rules.calls_per_tool and earlier >= rules.calls_per_tool:
        why = f"this would be call number {earlier + 1:,} of {name}; at most {rules.calls_per_tool:,} are allowed"
        yield Decision(Ruling.DENY, "limits.calls-per-tool", why, _raise("calls-per-tool", earlier + 1))
    if rules.argument_bytes and (size := _size(args)) > rules.argument_bytes:
        why = f"the arguments have {size:,} bytes; at most {rules.argument_bytes:,} are allowed"
        yield Decision(Ruling.DENY, "limits.argument-bytes", why, _raise("argument-bytes", size))


def _size(args: Mapping[str, Any]) -> int:
    try:
        return len(msgspec.json.encode(args, enc_hook=repr))
    except (TypeError, ValueError, RecursionError):
        return len(repr(args))


# How to allow it


def _add(what: str, setting: str, table: str) -> str:
    return f'add "{what}" to {setting} in [rules.{table}] of {FILE}'


def _take_out(what: str, setting: str, table: str) -> str:
    return f'remove "{what}" from {setting} in [rules.{table}] of {FILE}'


def _raise(limit: str, needed: int) -> str:
    return f"set {limit} = {needed} or more in [rules.limits] of {FILE}"
