"""Finding the line to blame: the same round again, with a look at the other system around every call and line.

That is slow, and only done for a round that has failed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from takeback.engine.runs.declare import Function, unwrapped
from takeback.testing.chaos.inject import Injector, MadeCall, Onlooker
from takeback.testing.chaos.witness import World, differences, listed

_KEY = "The key that it sends has to be takeback.current_call().key, which is the same for each attempt"


class Suspicion(Onlooker):
    """Looks at the other system around each call, each undo handler and each line of the agent."""

    def __init__(self, world: World, agent: Function) -> None:
        self._world = world
        self._last = self._world.before
        self._code = getattr(unwrapped(agent)[0], "__code__", None)
        self._inside = 0
        self._line = 0
        self._before: dict[str, dict[str, Any]] = {}
        self.outside: tuple[str, list[str]] | None = None
        """The line of the agent that changed the other system outside of any call, and what it changed."""
        self.undone_badly: dict[str, tuple[str, list[str]]] = {}
        """For each call that was undone and is not gone: the line of the undo handler, and what is left."""
        self.effects: dict[str, list[str]] = {}
        """For each call that was not undone: what it changed."""

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Follow the lines of the agent itself."""
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(before)

    def begins(self, what: str, key: str) -> None:
        self._look()
        if what == "call":
            self._before.setdefault(key, self._last)
        self._inside += 1

    def ends(self, what: str, key: str, line: str) -> None:
        self._inside -= 1
        self._last = self._world.look()
        if what == "call" and (found := differences(self._before[key], self._last)):
            self.effects[key] = found
        if what == "undo" and key in self._before:
            self.effects.pop(key, None)
            if found := differences(self._before[key], self._last):
                self.undone_badly[key] = (line, found)
            else:
                self.undone_badly.pop(key, None)

    def _trace(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        return self._follow if frame.f_code is self._code else None

    def _follow(self, frame: FrameType, event: str, _arg: Any) -> Any:
        self._look()
        if event == "line":
            self._line = frame.f_lineno
        return self._follow

    def _look(self) -> None:
        """Look whether something changed since the last look, where nothing should."""
        if self._inside:
            return
        now = self._world.look()
        if (found := differences(self._last, now)) and self.outside is None and self._code is not None:
            self.outside = (f"{self._code.co_filename}:{self._line}", found)
        self._last = now


def blame_for_residue(suspicion: Suspicion, calls: Sequence[MadeCall]) -> str:
    """Return whose fault it is that something is left, with the line; empty if that is not known."""
    if suspicion.outside is not None:
        line, found = suspicion.outside
        return (
            f"{line}: changes another system outside of run.call, so nothing takes it back. Declare what it does "
            f"with @takeback.action(undo=…, check=…) and make it with run.call:\n{listed(found)}"
        )
    known = {call.key: call for call in calls}
    # The one that was undone first: what it left is still there after the others.
    for key, (line, found) in suspicion.undone_badly.items():
        if call := known.get(key):
            return (
                f"{line}: this undo handler of {call.name} (called at {call.site}) returns, and does not put back "
                f"everything:\n{listed(found)}"
            )
    for key, found in suspicion.effects.items():
        if (call := known.get(key)) and call.undo:
            return (
                f"{call.function}: what {call.name} did is not found by its check ({call.check}), so it was not "
                f"undone. {_KEY}:\n{listed(found)}"
            )
    return ""


def blame_for_doubles(first: Injector, second: Injector | None) -> str:
    """Return whose fault it is that something happened twice, with the line; empty if that is not known."""
    for again in second.calls if second else ():
        earlier = next((one for one in first.calls if one.site == again.site and one.ended), None)
        if earlier and earlier.key != again.key and second and again.number <= len(second.calls):
            return (
                f"{again.site}: this call of {again.name} has another key when the run is continued, so it is made "
                f"again. Its arguments were {earlier.arguments} and are {again.arguments}: name those that do not "
                "belong to the intent in @takeback.action(volatile=…), or give the call a key that stays"
            )
    for call in first.calls:
        if call.attempts > 1:
            return (
                f"{call.function}: {call.name} was called {call.attempts} times for the one call at {call.site}, and "
                f"its check ({call.check or 'it has none'}) did not find what the first time had done. {_KEY}"
            )
    return ""
