"""The rules of takeback.toml, applied at the gate of a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from takeback.core.events import Effect
from takeback.core.history import History
from takeback.core.policy import Decision, Foresee, RuleContext, commands_in, judge_call, paths_in
from takeback.core.rules import EffectRules, Rules, ToolRules
from takeback.engine.gate.foresight import ForeseenAction, Foresight, real_path
from takeback.engine.gate.wanted import Wanted
from takeback.engine.runs.declare import unwrapped


class Judging:
    """The judge of the calls of one run, which also counts them."""

    def __init__(
        self,
        rules: Rules,
        root: str | os.PathLike[str],
        short: Mapping[str, str],
        foresight: Foresight,
        here: Callable[[], str] = os.getcwd,
        roots: Sequence[str] = (),
    ) -> None:
        """Apply `rules`. `roots` are places outside the workspace that the run looks at anyway."""
        self._rules = rules
        self._root = os.path.realpath(root)
        self._short = short
        self._foresight = foresight
        self._here = here
        self._roots = roots
        self._called: dict[str, int] = {}
        self._before: Callable[[str], int] = lambda _: 0
        self._by_effect: dict[tuple[str, Effect, bool], Decision] = {}
        self._ruled = msgspec.structs.replace(rules, effects=EffectRules()) != Rules()

    def go_on(self, history: History, run: str) -> None:
        """Also count the calls that the run has made before: a limit applies to the run, not to its process."""
        self._before = lambda tool: history.times_called(run, tool)

    def foresee(self, wanted: Wanted) -> ForeseenAction:
        """Find out what an action would do, from the commands and paths among its arguments."""
        given = _by_name(wanted.named)
        more = self._rules.paths.arguments if self._rules.paths else ()
        commands = commands_in(given, self._rules.commands.arguments)
        return self._foresight.action(
            wanted.effect, commands, paths_in(given, more), wanted.paths, self._roots
        )

    def __call__(self, wanted: Wanted, *, undeclared: bool) -> Decision:
        """Decide on an action whose effects have been foreseen. `undeclared` is as in `judge_call`."""
        tool, effect, found = wanted.tool or wanted.name, wanted.effect, wanted.foreseen
        if not self._ruled and not found.uncaptured and not found.commands:
            # The usual case, and calls are frequent: the only rules are about effects.
            decision = self._by_effect.get((tool, effect, undeclared))
            if decision is None:
                ground = RuleContext(self._root)
                decision = judge_call(self._rules, tool, effect, {}, ground, undeclared=undeclared)
                self._by_effect[tool, effect, undeclared] = decision
            return decision
        # Computed for each call: the current folder may have changed, or a tool with a short name been imported.
        ground = ground_of(self._root, self._rules.tools, self._short, found.of_command, self._here())
        earlier = self._earlier(tool)
        decision = judge_call(
            self._rules,
            tool,
            effect,
            _by_name(wanted.named),
            ground,
            earlier=earlier,
            uncaptured=found.uncaptured,
            undeclared=undeclared,
        )
        self._called[tool] = earlier + 1
        return decision

    def _earlier(self, tool: str) -> int:
        """Return how often the run has called a tool. What is recorded at its first call here came before it."""
        if not self._rules.limits.calls_per_tool:
            return 0
        known = self._called.get(tool)
        return self._before(tool) if known is None else known


def _by_name(arguments: Any) -> Mapping[str, Any]:
    return arguments if isinstance(arguments, Mapping) else {"arguments": arguments}


def ground_of(
    root: str,
    rules: ToolRules,
    short: Mapping[str, str],
    foresee: Foresee | None = None,
    here: str = "",
) -> RuleContext:
    """Return the rule context of a call made now in the workspace at `root`, which is absolute and without links.

    A relative path starts at `here`, or at the current folder, as for the tool itself. A rule or a short name also
    applies to a tool that it calls by another name than that of its definition.
    """
    exact = [
        name for name in (*(rules.allow or ()), *rules.ask, *rules.deny) if ":" in name and "*" not in name
    ]
    known = {**{name: name for name in exact}, **short}
    pairs = [(alias, name) for alias, target in known.items() for name in (target, _loaded(target))]
    return RuleContext(root, here or os.getcwd(), tuple(dict.fromkeys(pairs)), real_path, foresee)


def name_in_rules(function: Callable[..., Any], otherwise: str = "") -> str:
    """Return the name of a function in rules: `package.module:function`, where it was defined."""
    function, _, _ = unwrapped(function)
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if name and not module and not otherwise:
        # A method of a built-in type is defined in the module of that type.
        module = getattr(function, "__objclass__", type(getattr(function, "__self__", None))).__module__
    if module and name:
        return f"{module}:{name}"
    return otherwise or f"{type(function).__module__}:{type(function).__qualname__}"


def _loaded(target: str) -> str:
    """Return the rule name of a function that may have been imported under another name. Imports nothing."""
    module, _, path = target.partition(":")
    found: Any = sys.modules.get(module)
    for name in path.split("."):
        found = getattr(found, name, None)
    return name_in_rules(found, target) if callable(found) else target
