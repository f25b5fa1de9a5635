"""What a shadow intends: taken down in order, instead of being done."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec

from takeback.core.events import Effect
from takeback.core.values import plain
from takeback.engine.runs.declare import Declared, Function
from takeback.engine.shadow.stand_ins import Marks, NoStandIn, StandIns, built, issuing, marks_in, result_type
from takeback.errors import RefusedError, ShadowEnded, UsageError
from takeback.resources.calls import handlers

IN_VIEW = (Effect.NONE, Effect.RESTORABLE, Effect.TRANSACTIONAL)
"""Effects that a shadow may have: they stay in its view."""
How = Literal["simulated", "stand-in", "held", "aborted", "ended"]


class Intention(msgspec.Struct, frozen=True):
    """One thing that a shadow would have done outside of its view."""

    kind: Literal["call", "intent", "statement"]
    name: str
    effect: Effect
    arguments: dict[str, Any]
    """All of them, privately."""
    shown: Any
    """What a log may show of them."""
    how: How
    """What stood in for it."""
    function: str = ""
    """By which name another process finds the function; empty if it cannot."""
    tool: str = ""
    step: str = ""
    key: str = ""
    result: Any = None
    marks: Marks = {}
    """The stand-ins in its result."""
    asks: str = ""
    """Why a human would be asked first."""
    undo: str = ""
    """The handler that would take it back."""
    options: dict[str, Any] = {}


class Shadow:
    """The intentions of one shadow, in order."""

    def __init__(self, folder: Path, real: str = "") -> None:
        """`real` is the folder of the workspace itself, if this process can reach it."""
        self._real = real
        self.folder = folder
        """Where functions that simulate other systems keep their state."""
        self.intentions: list[Intention] = []
        self.functions: dict[int, Function] = {}
        """The functions of the intentions, by their numbers, for a promotion by this process."""
        self._stand_ins = StandIns()

    def stands_in(self, effect: Effect) -> bool:
        """Return whether something has to stand in for a call with this effect."""
        return effect not in IN_VIEW

    def refuse_real(self, name: str, value: Any) -> None:
        """Raise RefusedError if an argument names a path in the real folder: the call would write there."""
        if not self._real:
            return
        if isinstance(value, str):
            if value == self._real or value.startswith(f"{self._real}/"):
                raise RefusedError(
                    f"{name} was not called: it names {value}, which is not in the view of this shadow",
                    hint="use run.root instead of the folder of the workspace, or a relative path",
                )
        elif isinstance(value, dict | list):
            for item in value.values() if isinstance(value, dict) else value:
                self.refuse_real(name, item)

    def answer(self, function: Function, declared: Declared, args: Any, kwargs: Any) -> tuple[Any, How]:
        """Return what stands in for the result of a call, or an awaitable of it. Raise ShadowEnded if nothing can."""
        if declared.simulate is not False:
            simulate = function if declared.simulate is True else declared.simulate
            assert callable(simulate)
            return self._simulated(lambda: simulate(*args, **kwargs)), "simulated"
        try:
            kind = result_type(function)
            return built(kind, self._stand_ins.of(kind)), "stand-in"
        except NoStandIn as error:
            raise ShadowEnded(
                f"the shadow ends at {declared.name}: its result is {error}, and nothing can stand in for that",
                hint="declare what does: @takeback.action(..., simulate=f)",
            ) from None

    def _simulated(self, function: Callable[[], Any]) -> Any:
        with handlers.simulating(self.folder):
            found = issuing(self._stand_ins, function)
            return self._awaited(found) if inspect.isawaitable(found) else found

    async def _awaited(self, found: Any) -> Any:
        with handlers.simulating(self.folder):
            return await found

    def take_down(self, intention: Intention, function: Function | None = None) -> None:
        """Add an intention."""
        if function is not None:
            self.functions[len(self.intentions)] = function
        self.intentions.append(intention)


def kept(result: Any, name: str) -> tuple[Any, Marks]:
    """Return a result as it is kept, with the stand-ins in it."""
    value = plain(result, f"what stands in for {name}")
    return value, marks_in(value)


def name_of(function: Function) -> str:
    """Return the name by which another process finds a function; empty if it cannot."""
    found = ""
    with suppress(UsageError):
        found = handlers.name_of(function)
    return found
