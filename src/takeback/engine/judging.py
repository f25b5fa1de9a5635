"""The rules of takeback.toml at the gate of a run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from takeback.core.events import Effect
from takeback.core.policy import FORESEEN, Foresee, Ground, Use, commands_in, foreseen, judge_call, paths_in
from takeback.core.rules import EffectRules, Rules
from takeback.engine.gate import Ruling
from takeback.engine.ground import ground_of
from takeback.ports import Reached, Survey

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
        ground = Ground(self._root, foresee=self._foresee)
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
                found = judge_call(self._rules, name, effect, {}, Ground(self._root), undeclared=undeclared)
                ruling = Ruling(found.do.value, found.rule, found.why, found.how)
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
        return Ruling(found.do.value, found.rule, found.why, found.how)


def _by_name(arguments: Any) -> Mapping[str, Any]:
    return arguments if isinstance(arguments, Mapping) else {"arguments": arguments}
