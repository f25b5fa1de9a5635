"""A rehearsal: calls are simulated and recorded as made, and one of them fails after it has had its effect.

That is the hardest moment for recovery: the world has the effect, and nobody was told.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from takeback.core.events import Effect
from takeback.engine.runs.declare import Declared, Function, is_async
from takeback.engine.shadow.shadow import IN_VIEW
from takeback.engine.shadow.stand_ins import NoStandIn, StandIns, built, issuing, result_type
from takeback.errors import RefusedError

FAILURES = ("error", "timeout", "kill")


class RehearsedFailure(RuntimeError):
    """The failure that a rehearsal causes."""


class Rehearsal:
    """What stands in for calls, and which step fails, and how."""

    def __init__(self, step: str, failure: str, *, isolated: bool) -> None:
        """`isolated` means that nothing in this process can reach anything outside of its view."""
        self._isolated = isolated
        self._step = step
        self._failure = failure
        self._stand_ins = StandIns()
        self.failed = False
        """True once the step has failed as it was to."""

    def made(self, function: Function, declared: Declared, step: str) -> Function:
        """Return what is called instead of a function."""
        chosen = self._chosen(function, declared)

        def called(*args: Any, **kwargs: Any) -> Any:
            result = issuing(self._stand_ins, lambda: chosen(*args, **kwargs))
            if step == self._step:
                self._fail()
            return result

        async def awaited(*args: Any, **kwargs: Any) -> Any:
            result = await chosen(*args, **kwargs)
            if step == self._step:
                self._fail()
            return result

        return awaited if is_async(chosen) else called

    def _chosen(self, function: Function, declared: Declared) -> Function:
        if callable(declared.simulate):
            return declared.simulate
        if declared.simulate is True or declared.effect in IN_VIEW:
            return function
        if declared.effect is Effect.UNKNOWN and self._isolated:
            return function  # what it would do elsewhere does not get there
        try:
            kind = result_type(function)
            value = built(kind, self._stand_ins.of(kind))
        except NoStandIn as error:
            why = f"{declared.name} cannot be rehearsed: its result is {error}, and nothing can stand in for that"
            raise RefusedError(why, hint="declare what does: @takeback.action(..., simulate=f)") from None
        return lambda *_args, **_kwargs: value

    def _fail(self) -> None:
        self.failed = True
        if self._failure == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self._failure == "timeout":
            raise TimeoutError(f"the rehearsal lets {self._step} time out")
        else:
            raise RehearsedFailure(f"the rehearsal lets {self._step} fail")
