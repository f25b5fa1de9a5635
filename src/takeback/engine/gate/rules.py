"""The rules of takeback.toml at the gate of a run."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from takeback.core.entities import RecordedAction
from takeback.core.events import Effect
from takeback.core.policy import Decision, Foresee, RuleContext, commands_in, judge_call, paths_in
from takeback.core.rules import EffectRules, Rules, ToolRules
from takeback.engine.gate.foresight import ForeseenAction, Foresight, real_path
from takeback.engine.gate.wanted import Wanted
from takeback.engine.runs.declare import unwrapped


class Judging:
    """Judges the calls of one run, and counts them."""

    def __init__(
        self,
        rules: Rules,
        root: str | os.PathLike[str],
        short: Mapping[str, str],
        foresight: Foresight,
        here: Callable[[], str] = os.getcwd,
        roots: Sequence[str] = (),
    ) -> None:
        """`roots` are places outside the workspace that the run looks at anyway."""
        self._rules = rules
        self._root = os.path.realpath(root)
        self._short = short
        self._foresight = foresight
        self._here = here
        self._roots = roots
        self._called = Counter[str]()
        self._by_effect: dict[tuple[str, Effect, bool], Decision] = {}
        self._ruled = msgspec.structs.replace(rules, effects=EffectRules()) != Rules()

    def go_on(self, actions: Iterable[RecordedAction]) -> None:
        """Count these, which were called before an interruption: a limit is one of the run, not of its process."""
        if self._ruled:
            tools = (action.as_tool.tool for action in actions)
            self._called.update(tool for tool in tools if tool)

    def foresee(self, wanted: Wanted) -> ForeseenAction:
        """Find out what an action would do, from its commands, and from its arguments that are paths."""
        given = _by_name(wanted.named)
        more = self._rules.paths.arguments if self._rules.paths else ()
        commands = commands_in(given, self._rules.commands.arguments)
        return self._foresight.action(
            wanted.effect, commands, paths_in(given, more), wanted.paths, self._roots
        )

    def __call__(self, wanted: Wanted, *, undeclared: bool) -> Decision:
        """Decide on an action of which it is known what it would do. `undeclared` is as in `judge_call`."""
        tool, effect, found = wanted.tool or wanted.name, wanted.effect, wanted.foreseen
        if not self._ruled and not found.uncaptured and not found.commands:
            # The usual case, and calls are frequent: nothing is said but on effects.
            decision = self._by_effect.get((tool, effect, undeclared))
            if decision is None:
                ground = RuleContext(self._root)
                decision = judge_call(self._rules, tool, effect, {}, ground, undeclared=undeclared)
                self._by_effect[tool, effect, undeclared] = decision
            return decision
        # Made for each call: the current folder may be another one, and a tool with a short name just imported.
        ground = ground_of(self._root, self._rules.tools, self._short, found.of_command, self._here())
        decision = judge_call(
            self._rules,
            tool,
            effect,
            _by_name(wanted.named),
            ground,
            earlier=self._called[tool],
            uncaptured=found.uncaptured,
            undeclared=undeclared,
        )
        self._called[tool] += 1
        return decision


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
