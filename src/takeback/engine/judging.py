"""The rules of takeback.toml at the gate of a run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from takeback.core.events import Effect
from takeback.core.policy import Ground, judge_call
from takeback.core.rules import EffectRules, Rules
from takeback.engine.gate import Ruling
from takeback.engine.ground import ground_of


class Judging:
    """Judges the calls of one run, and counts them."""

    def __init__(self, rules: Rules, root: str | os.PathLike[str], short: Mapping[str, str]) -> None:
        self._rules = rules
        self._root = os.path.realpath(root)
        self._short = short
        self._called = Counter[str]()
        self._by_effect: dict[tuple[str, Effect], Ruling] = {}
        self._ruled = msgspec.structs.replace(rules, effects=EffectRules()) != Rules()

    def go_on(self, tools: Iterable[str]) -> None:
        """These were called before the run was interrupted: a limit is one of the run, not of its process."""
        self._called.update(tools)

    def __call__(self, name: str, effect: Effect, arguments: Any) -> Ruling:
        """`name` is that of `name_in_rules`, and `arguments` are by name where they can be."""
        if not self._ruled:
            # The usual case, and calls are frequent: nothing is said but on effects.
            ruling = self._by_effect.get((name, effect))
            if ruling is None:
                found = judge_call(self._rules, name, effect, {}, Ground(self._root))
                ruling = Ruling(found.do.value, found.rule, found.why, found.how)
                self._by_effect[name, effect] = ruling
            return ruling
        given = arguments if isinstance(arguments, Mapping) else {"arguments": arguments}
        # Made for each call: the current folder may be another one, and a tool with a short name just imported.
        ground = ground_of(self._root, self._rules.tools, self._short)
        found = judge_call(self._rules, name, effect, given, ground, earlier=self._called[name])
        self._called[name] += 1
        return Ruling(found.do.value, found.rule, found.why, found.how)
