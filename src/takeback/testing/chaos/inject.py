"""Causing one fault at one place of an agent, and noting what its calls and handlers did.

Calls are reached through `Options.instead`, the ends of steps and of the run through its invariants, undo handlers
and checks through `handlers.wrapping`, and outputs of models through `run.buffered`. So the agent is run as it is.
"""

from __future__ import annotations

import inspect
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

import takeback
from takeback.core.events import Effect
from takeback.engine.gate.gate import Approve
from takeback.engine.runs import call as making
from takeback.engine.runs.buffered import Buffered
from takeback.engine.runs.declare import BoundHandler, Declared, Function, current_call, is_async, unwrapped
from takeback.engine.runs.parts import Options, SharedParts
from takeback.engine.runs.run import Run
from takeback.engine.runs.runs import Runs
from takeback.resources.calls import handlers, resource
from takeback.resources.calls.resource import Call
from takeback.testing.chaos.faults import Fault

_OURS = str(Path(takeback.__file__).parent)

CALL, OUTPUT, STEP = "call", "output", "step"
DISK = ("disk-write", "disk-sync")


class FaultPlace(msgspec.Struct, frozen=True):
    """A place of an agent at which a fault can happen: the n-th call, output or end of a step."""

    kind: str
    number: int

    def __str__(self) -> str:
        return f"{self.kind} {self.number}"


class MadeCall(msgspec.Struct):
    """One call that the agent made, and how often its function was called for it."""

    number: int
    name: str
    site: str
    """The line of the agent that makes it."""
    function: str
    """The line at which its function begins."""
    undo: str
    check: str
    effect: Effect
    key: str = ""
    arguments: Any = None
    attempts: int = 0
    ended: bool = False


class Onlooker:
    """Told about the beginning and the end of what may change another system on purpose. This one ignores it."""

    def begins(self, what: str, key: str) -> None:
        """Note that a call or an undo handler begins."""

    def ends(self, what: str, key: str, line: str) -> None:
        """Note that it has ended, one way or the other; `line` is where it is defined."""


class Injector:
    """Causes one fault in one attempt of an agent, and notes what it does."""

    def __init__(
        self, fault: Fault | None = None, at: FaultPlace | None = None, watcher: Onlooker | None = None
    ):
        self._fault = fault
        self._at = at
        self._watcher = watcher or Onlooker()
        self._counting = threading.Lock()
        self._counts: dict[str, int] = {}
        self._refusing = False
        self.hit = False
        """True once the fault has happened."""
        self.calls: list[MadeCall] = []
        self.runs: list[Run] = []

    @property
    def places(self) -> dict[str, int]:
        """How many places of each kind the agent passed."""
        return dict(self._counts)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Let handlers of this process fail while the fault lasts, and let nothing wait between retries."""
        pauses = making.PAUSE_S, resource.PAUSE_S
        making.PAUSE_S = resource.PAUSE_S = 0.0
        try:
            with handlers.wrapping(self._handler):
                yield
        finally:
            making.PAUSE_S, resource.PAUSE_S = pauses

    def forgive(self) -> None:
        """Let nothing fail any more: the key works again."""
        self._refusing = False

    # The seams

    def instead(self, function: Function, declared: Declared, _step: str) -> Function:
        """Return what a call makes instead of its function."""
        made = MadeCall(
            0,
            declared.name,
            _site(),
            line_of(function),
            line_of(declared.undo),
            line_of(declared.check),
            declared.effect,
        )

        def called(*args: Any, **kwargs: Any) -> Any:
            fault = self._before(made)
            try:
                return self._after(made, fault, function(*args, **kwargs))
            finally:
                self._watcher.ends("call", made.key, made.function)

        async def awaited(*args: Any, **kwargs: Any) -> Any:
            fault = self._before(made)
            try:
                return self._after(made, fault, await function(*args, **kwargs))
            finally:
                self._watcher.ends("call", made.key, made.function)

        return awaited if is_async(function) else called

    def boundary(self) -> None:
        """Fail at the end of a step or of the run, if that is the place."""
        fault = self._due(FaultPlace(STEP, self._next(STEP)))
        if fault is not None and fault.raises is not None:
            raise fault.raises()

    def output(self) -> type[Buffered[Any]]:
        """Return what stands in for `run.buffered`: one of its outputs is cut in the middle."""
        injector = self

        class CutOutput(Buffered[Any]):
            def __exit__(
                self,
                kind: type[BaseException] | None,
                error: BaseException | None,
                trace: TracebackType | None,
            ) -> None:
                fault = injector._due(FaultPlace(OUTPUT, injector._next(OUTPUT)))
                if fault is not None:
                    del self._data[len(self._data) // 2 :]
                super().__exit__(kind, error, trace)

        return CutOutput

    def _handler(self, function: Callable[..., Any]) -> Callable[..., Any]:
        line = line_of(function)

        def called(call: Call) -> Any:
            if self._refusing and self._fault and self._fault.raises:
                raise self._fault.raises()
            what = "undo" if any(made.undo == line for made in self.calls) else "check"
            self._watcher.begins(what, call.key)
            try:
                found = function(call)
            except BaseException:
                self._watcher.ends(what, call.key, line)
                raise
            if inspect.isawaitable(found):
                return _then(found, lambda: self._watcher.ends(what, call.key, line))
            self._watcher.ends(what, call.key, line)
            return found

        return called

    def disk(self, point: str) -> None:
        """Fail at a write or a sync of Takeback's own files, if that is the place. A hook of crash points."""
        if point in DISK:
            fault = self._due(FaultPlace(point, self._next(point)))
            if fault is not None and fault.raises is not None:
                raise fault.raises()

    # The fault

    def _before(self, made: MadeCall) -> Fault | None:
        """Note that a call is made, and return the fault that is to happen after its effect."""
        if not made.number:
            made.number = self._next(CALL)
            self.calls.append(made)
        made.attempts += 1
        call = current_call()
        made.key, made.arguments = call.key, [call.args, call.kwargs]
        fault = self._due(FaultPlace(CALL, made.number))
        if self._refusing and self._fault and self._fault.raises:
            raise self._fault.raises()
        if fault is not None:
            time.sleep(fault.slow_s)
            if fault.raises is not None and not fault.after:
                raise fault.raises()
        self._watcher.begins("call", made.key)
        return fault

    def _after(self, made: MadeCall, fault: Fault | None, result: Any) -> Any:
        if fault is not None and fault.after and fault.raises is not None:
            raise fault.raises()
        made.ended = True
        if fault is not None and fault.malformed:
            return result[: len(result) // 2] if isinstance(result, (str, bytes)) else '{"malformed'
        return result

    def _due(self, place: FaultPlace) -> Fault | None:
        """Return the fault if this is its place, the first time."""
        if self._fault is None or place != self._at or self.hit:
            return None
        self.hit = True
        self._refusing = self._fault.lasting
        return self._fault

    def _next(self, kind: str) -> int:
        with self._counting:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            return self._counts[kind]


class ChaosRuns(Runs):
    """The runs of a workspace, each with the injector of the present attempt."""

    def __init__(self, shared: SharedParts) -> None:
        super().__init__(shared)
        self.injector = Injector()

    def run(self, options: Options, *, approve: Approve | None, approval_wait_s: float) -> Run:
        injector = self.injector
        invariants = (*options.invariants, injector.boundary)
        options = msgspec.structs.replace(options, instead=injector.instead, invariants=invariants)
        run = super().run(options, approve=approve, approval_wait_s=approval_wait_s)
        run.buffered = injector.output()
        injector.runs.append(run)
        return run


def line_of(function: Function | BoundHandler | None) -> str:
    """Return the file and line at which a function begins, or its name if it has none; empty without one."""
    if function is None:
        return ""
    bare, _, _ = unwrapped(function.function if isinstance(function, BoundHandler) else function)
    inner = inspect.unwrap(bare)
    code = getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
    if code is None:
        return str(getattr(inner, "__qualname__", inner))
    # The line of `def` itself, below its decorators.
    first: int = code.co_firstlineno
    try:
        lines, start = inspect.getsourcelines(inner)
    except (OSError, TypeError):
        return f"{code.co_filename}:{first}"
    below = next((n for n, text in enumerate(lines) if text.lstrip().startswith(("def ", "async def "))), 0)
    return f"{code.co_filename}:{start + below}"


def _site() -> str:
    """Return the line outside of Takeback from which a call comes."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


async def _then(found: Any, do: Callable[[], None]) -> Any:
    try:
        return await found
    finally:
        do()
