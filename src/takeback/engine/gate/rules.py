"""The rules of takeback.toml at the gate of a run."""

from __future__ import annotations

import os
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from takeback.core.events import Effect
from takeback.core.policy import (
    FORESEEN,
    Foresee,
    RuleContext,
    Use,
    commands_in,
    foreseen,
    judge_call,
    paths_in,
)
from takeback.core.rules import EffectRules, Rules, ToolRules
from takeback.engine.gate.gate import Ruling
from takeback.engine.runs.declare import unwrapped
from takeback.ports.foresight import Reached, Survey

TouchesOf = Callable[[Iterable[str | Sequence[str]], Iterable[str], Iterable[str]], list[Reached]]
SurveyOf = Callable[[Iterable[str | Sequence[str]], Iterable[str], Iterable[str]], Survey]
"""Given commands, paths that may be written, and paths that surely are."""


class Judging:
    """Judges the calls of one run, and counts them."""

    def __init__(
        self,
        rules: Rules,
        root: str | os.PathLike[str],
        short: Mapping[str, str],
        foresee: Foresee | None = None,
        survey: SurveyOf | None = None,
        here: Callable[[], str] = os.getcwd,
        touches: TouchesOf | None = None,
    ) -> None:
        self._rules = rules
        self._root = os.path.realpath(root)
        self._short = short
        self._foresee = foresee
        self._survey = survey
        self._touches = touches
        self._here = here
        self._called = Counter[str]()
        self._by_effect: dict[tuple[str, Effect, bool], Ruling] = {}
        self._ruled = msgspec.structs.replace(rules, effects=EffectRules()) != Rules()

    def go_on(self, tools: Iterable[str]) -> None:
        """These were called before the run was interrupted: a limit is one of the run, not of its process."""
        if self._ruled:
            self._called.update(tools)

    def effect(self, effect: Effect, arguments: Any) -> Effect:
        """What a call does: what it declares, or more where it is given a command that does more."""
        if effect not in FORESEEN:
            return effect
        ground = RuleContext(self._root, foresee=self._foresee)
        return foreseen(Use("", effect), _by_name(arguments), self._rules.commands, ground).effect

    def outside(self, arguments: Any, paths: Sequence[str]) -> Survey:
        """What a call names outside the workspace: in its commands, and among its arguments that are paths."""
        return self._survey(*self._words(arguments, paths)) if self._survey else Survey()

    def touches(self, arguments: Any, paths: Sequence[str]) -> list[Reached]:
        """What a call says it writes, wherever that is."""
        return self._touches(*self._words(arguments, paths)) if self._touches else []

    def _words(
        self, arguments: Any, paths: Sequence[str]
    ) -> tuple[Iterable[str | Sequence[str]], Iterable[str], Iterable[str]]:
        given = _by_name(arguments)
        more = self._rules.paths.arguments if self._rules.paths else ()
        return commands_in(given, self._rules.commands.arguments), tuple(paths_in(given, more)), paths

    def __call__(
        self,
        name: str,
        effect: Effect,
        arguments: Any,
        *,
        uncaptured: str = "",
        undeclared: bool = False,
    ) -> Ruling:
        """`name` is that of `name_in_rules`, and `arguments` are by name where they can be."""
        given = _by_name(arguments)
        if not self._ruled and not uncaptured and not any(commands_in(given)):
            # The usual case, and calls are frequent: nothing is said but on effects.
            ruling = self._by_effect.get((name, effect, undeclared))
            if ruling is None:
                found = judge_call(
                    self._rules, name, effect, {}, RuleContext(self._root), undeclared=undeclared
                )
                ruling = Ruling(found.do.value, found.rule, found.why, found.how, found.hint)
                self._by_effect[name, effect, undeclared] = ruling
            return ruling
        # Made for each call: the current folder may be another one, and a tool with a short name just imported.
        ground = ground_of(self._root, self._rules.tools, self._short, self._foresee, self._here())
        earlier = self._called[name]
        found = judge_call(
            self._rules,
            name,
            effect,
            given,
            ground,
            earlier=earlier,
            uncaptured=uncaptured,
            undeclared=undeclared,
        )
        self._called[name] += 1
        return Ruling(found.do.value, found.rule, found.why, found.how, found.hint)


def _by_name(arguments: Any) -> Mapping[str, Any]:
    return arguments if isinstance(arguments, Mapping) else {"arguments": arguments}


def ground_of(
    root: str,
    rules: ToolRules,
    short: Mapping[str, str],
    foresee: Foresee | None = None,
    here: str = "",
) -> RuleContext:
    """The ground under a call made now, in the workspace at `root`, which is absolute and without links.

    A relative path is meant from `here`, else from the current folder, as the tool will. A tool that a rule, or a
    short name, calls by another name than that of its definition is meant all the same.
    """
    exact = [
        name for name in (*(rules.allow or ()), *rules.ask, *rules.deny) if ":" in name and "*" not in name
    ]
    known = {**{name: name for name in exact}, **short}
    pairs = [(alias, name) for alias, target in known.items() for name in (target, _loaded(target))]
    return RuleContext(root, here or os.getcwd(), tuple(dict.fromkeys(pairs)), real_path, foresee)


def name_in_rules(function: Callable[..., Any], otherwise: str = "") -> str:
    """How the rules know a function: `package.module:function`, where it was defined."""
    function, _, _ = unwrapped(function)
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if name and not module and not otherwise:
        # A method of a builtin kind: it is where that kind is.
        module = getattr(function, "__objclass__", type(getattr(function, "__self__", None))).__module__
    if module and name:
        return f"{module}:{name}"
    return otherwise or f"{type(function).__module__}:{type(function).__qualname__}"


def _loaded(target: str) -> str:
    """The same for a function that may have been imported under another name; nothing is imported for it."""
    module, _, path = target.partition(":")
    found: Any = sys.modules.get(module)
    for name in path.split("."):
        found = getattr(found, name, None)
    return name_in_rules(found, target) if callable(found) else target


SCRIPT_MAX = 100_000
"""Bytes of a script that are read before it runs. The judge asks about one that is longer."""


def script_text(path: str) -> str | None:
    """The text of a script, of a long one how it begins; None for anything but a text in a regular file."""
    try:
        # A pipe of that name would not answer.
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return None
        content = os.pread(opened, SCRIPT_MAX + 4, 0)
    finally:
        os.close(opened)
    text = content.decode("utf-8", "surrogateescape")
    return None if "\0" in text else text


def real_path(path: str) -> str:
    """Where a path leads, links followed."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        # No file can have such a name, so it leads nowhere; its words are judged all the same.
        return path
