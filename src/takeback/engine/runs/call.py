"""Making one call: look for its recorded result, pass the gate, record, call, retry, and record the result."""

from __future__ import annotations

import inspect
import random
import time
from collections.abc import Callable
from functools import lru_cache, partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

import msgspec

from takeback.core import events as e
from takeback.core import keys
from takeback.core.rules import Ruling
from takeback.core.values import plain, said, view
from takeback.engine.gate.rules import name_in_rules
from takeback.engine.gate.wanted import Wanted
from takeback.engine.runs import arguments, declare
from takeback.engine.runs.declare import (
    Declared,
    Function,
    declared,
    declared_here,
    hides_something,
    is_async,
    unwrapped,
)
from takeback.engine.runs.in_flight import wholly
from takeback.engine.runs.recorded_calls import HANDLERS, CallEvidence
from takeback.engine.runs.recorder import Recorder
from takeback.engine.runs.step import RunContext
from takeback.errors import (
    HandedOver,
    InvariantBroken,
    LeaseLost,
    RefusedError,
    SeatLost,
    ShadowEnded,
    UsageError,
)
from takeback.resources.calls.resource import Call

if TYPE_CHECKING:
    import asyncio

    from takeback.engine.shadow.shadow import Shadow

FINAL = (InvariantBroken, HandedOver, LeaseLost, SeatLost, RefusedError, ShadowEnded)
"""Errors that are never retried, whatever a function declares as transient."""
PAUSE_S = 0.1
PAUSE_MAX_S = 30.0


class Facts(msgspec.Struct, frozen=True):
    """What is known about a function, independent of its arguments."""

    function: Function
    declared: Declared
    tool: str
    identity: str
    is_async: bool
    hides_something: bool


def facts_of(function: Function) -> Facts:
    # Cached with its declaration, which may be replaced. An object may change, so it is not cached.
    return (_facts if isinstance(function, FunctionType) else _facts.__wrapped__)(
        function, declared(function)
    )


@lru_cache(maxsize=1024)
def _facts(function: Function, said: Declared) -> Facts:
    inner, _, _ = unwrapped(function)
    tool = name_in_rules(function)
    # A chosen name is the identity, so the function may move. Otherwise two modules may use the same name.
    chosen = said.name != getattr(inner, "__qualname__", "")
    return Facts(inner, said, tool, said.name if chosen else tool, is_async(inner), hides_something(inner))


def first_key(function: Function, place: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return the automatic key of the first call in a step that is meant to do this."""
    facts = facts_of(function)
    _, args, kwargs = unwrapped(function, args, kwargs)
    kept = _kept(facts.declared.name, args, kwargs)
    bound = arguments.by_name(facts.function, kept)
    intended = keys.intent(bound, facts.declared.volatile, arguments.spread(facts.function))
    return keys.action_key(place, 1, facts.identity, intended)


def _kept(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments as they are stored. Raise UsageError for one that cannot be."""
    return {
        "args": [plain(item, f"argument {n} of {name}") for n, item in enumerate(args, 1)],
        "kwargs": {key: plain(item, f"argument {key} of {name}") for key, item in kwargs.items()},
    }


class Caller:
    """One call of a run, from its beginning to its end."""

    def __init__(self, function: Function, run: RunContext, *, key: str, effect: str) -> None:
        step, parts = run.step, run.parts
        self._asked_for = function
        self._facts = facts_of(function)
        self._function = self._facts.function
        self._declared = declared_here(self._facts.declared, effect)
        self._recorder = Recorder(run.ledger.history.runs[run.id], parts, run.beat)
        self._ledger = run.ledger
        self._calls = parts.calls
        self._replayed = run.replayed
        self._place = step.path if step else ""
        self._nth = run.nth
        self._key = key
        self._parent = run.action
        self._step = step.id if step else ""
        self._looking = run.options.checkpoint == "action" and self._declared.effect is not e.Effect.NONE
        self._retries = self._declared.retries or (step.retries if step else 0)
        self._at_work = run.at_work
        self._shadow = run.options.shadow
        self._made = self._function
        if run.options.instead is not None:
            self._made = run.options.instead(self._function, self._declared, self._place)

    def make(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        _, args, kwargs = unwrapped(self._asked_for, args, kwargs)
        wanted = self._wanted(args, kwargs)
        if self._shadow is not None:
            wanted = self._recorder.foreseen(wanted)
            if self._shadow.stands_in(wanted.effect):
                return self._intend(self._shadow, wanted, args, kwargs)
            if wanted.effect is not e.Effect.NONE:
                self._shadow.refuse_real(wanted.name, wanted.plain)
        if self._facts.is_async:
            return self._make_async(wanted, args, kwargs)
        with self._at_work.on(wanted.key):
            return self._make(wanted, lambda: self._made(*args, **kwargs))

    # The two ways of making a call: synchronous and asynchronous

    def _make(self, wanted: Wanted, function: Callable[[], Any]) -> Any:
        if earlier := self._recorder.completed(wanted, replayed=self._replayed):
            return self._calls.result(earlier)
        call, id = self._begin(wanted)
        left = self._retries
        while True:
            try:
                with _Calling(call, id):
                    result = function()
            except BaseException as error:  # noqa: BLE001  an interrupt, too, leaves a call to be judged
                if found := self._after_error(id, wanted, error, left):
                    return found.result
            else:
                self._recorder.end(id, wanted.name, result, wanted)
                return result
            time.sleep(self._pause_s(left))
            left -= 1

    async def _make_async(self, wanted: Wanted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        import asyncio

        recorder = self._recorder
        async with self._at_work.on_async(wanted.key):
            if earlier := recorder.completed(wanted, replayed=self._replayed):
                return self._calls.result(earlier)
            (call, id), cancelled = await wholly(lambda: self._begin(wanted), apart=True)
            if cancelled:
                why, stopped = "it was cancelled before it was made", e.Outcome.STOPPED
                await wholly(lambda: recorder.close(id, wanted, stopped, why, happened=False))
                raise cancelled
            left = self._retries
            while True:
                try:
                    with _Calling(call, id):
                        result = await self._made(*args, **kwargs)
                except BaseException as error:  # noqa: BLE001  as above
                    found, cancelled = await wholly(partial(self._after_error, id, wanted, error, left))
                    if found:
                        return _unless(cancelled, found.result)
                else:
                    end = partial(recorder.end, id, wanted.name, result, wanted)
                    _, cancelled = await wholly(end)
                    return _unless(cancelled, result)
                await asyncio.sleep(self._pause_s(left))
                left -= 1

    def _intend(self, shadow: Shadow, wanted: Wanted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Take down a call of a shadow, which is not made, and return what stands in for its result."""
        from takeback.engine.shadow import shadow as shadows

        recorder, known = self._recorder, self._declared.handlers()
        if earlier := recorder.completed(wanted, replayed=self._replayed):
            return self._whenever(self._calls.result(earlier))
        recorder.refuse_unready(wanted)
        recorder.keep_off(wanted)
        ruling = recorder.gate.rule(wanted)
        if ruling.do is Ruling.DENY:
            recorder.gate.refuse(recorder.run.id, wanted, ruling)
        intention = shadows.Intention(
            "call",
            wanted.name,
            wanted.effect,
            {name: wanted.plain[name] for name in ("args", "kwargs")},
            wanted.seen,
            "ended",
            shadows.name_of(self._function),
            wanted.tool,
            self._place,
            self._key,
            asks=ruling.why if ruling.do is Ruling.ASK else "",
            undo=known.undo if known else "",
        )
        noted = msgspec.structs.replace(wanted, effect=e.Effect.NONE, intended=wanted.effect)

        def take_down(result: Any, how: shadows.How) -> Any:
            value, marks = shadows.kept(result, wanted.name)
            made = msgspec.structs.replace(intention, how=how, result=value, marks=marks)
            recorder.intend(noted, value, f"a human would be asked: {made.asks}" if made.asks else "")
            shadow.take_down(made, self._asked_for)
            return result

        async def later(result: Any, how: shadows.How) -> Any:
            return take_down(await result if inspect.isawaitable(result) else result, how)

        call = Call(wanted.name, wanted.plain["args"], wanted.plain["kwargs"], f"shadow-{wanted.key}")
        try:
            with _Calling(call, ""):
                result, how = shadow.answer(self._function, self._declared, args, kwargs)
        except ShadowEnded:
            recorder.intend(noted, None, "the shadow ends here")
            shadow.take_down(intention, self._asked_for)
            raise
        return later(result, how) if self._facts.is_async else take_down(result, how)

    def _whenever(self, result: Any) -> Any:
        """Return a result, or an awaitable of it for a coroutine function."""

        async def later() -> Any:
            return result

        return later() if self._facts.is_async else result

    # Before

    def _wanted(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Wanted:
        name = self._declared.name
        kept = _kept(name, args, kwargs)
        bound = arguments.by_name(self._function, kept)
        identity = self._facts.identity
        intended = keys.intent(bound, self._declared.volatile, arguments.spread(self._function))
        if self._key:
            key, intent = self._key, keys.intent_key(identity, intended)
        else:
            key, intent = self._automatic_key(identity, intended), ""
        seen = arguments.seen(self._function, kept)
        if data := self._declared.data():
            kept, seen = kept | {HANDLERS: data}, seen | {HANDLERS: view(data)}
        return Wanted(
            name,
            self._declared.effect,
            key,
            kept,
            bound,
            seen,
            self._facts.tool,
            intent,
            self._declared.handlers(),
            self._step,
            self._parent,
            self._looking,
            undeclared=self._declared.effect is e.Effect.UNKNOWN,
        )

    def _automatic_key(self, identity: str, intended: dict[str, Any]) -> str:
        if self._facts.hides_something:
            raise UsageError(
                f"{self._declared.name} is an object with a state of its own, so its arguments do not say which "
                "call is meant; it was not called",
                hint="name the call with run.call(..., key=...), or call a function",
            )
        # Counted among calls with the same intent: threads and tasks may come in another order next time.
        nth = self._nth(keys.alike(self._place, identity, intended))
        return keys.action_key(self._place, nth, identity, intended)

    def _begin(self, wanted: Wanted) -> tuple[Call, str]:
        self._recorder.refuse_unready(wanted)
        wanted = self._recorder.foreseen(wanted)
        self._recorder.keep_off(wanted)
        passed = self._recorder.gate.pass_through(self._recorder.run.id, wanted)
        return self._recorder.begin(wanted, passed)

    # After

    def _after_error(self, id: str, wanted: Wanted, error: BaseException, left: int) -> CallEvidence | None:
        """Judge a call that raised. Return None to retry, or the result if its check finds that it happened."""
        transient = isinstance(error, self._declared.retry_on) and not isinstance(error, FINAL)
        action = self._ledger.history.actions.get(id)
        seen = self._calls.look_at(action) if action else CallEvidence(False)
        if transient and left and not seen.in_doubt:
            if not seen.happened:
                return None
            with self._calls.keeping(seen.result) as kept:
                done = e.Outcome.DONE
                self._recorder.close(id, wanted, done, seen.why, kept.view, kept.full, happened=True)
            return seen
        self._recorder.failed(id, wanted, said(error), seen)
        raise error

    def _pause_s(self, left: int) -> float:
        pause_s: float = PAUSE_S * 2 ** (self._retries - left)
        return min(PAUSE_MAX_S, pause_s) * random.uniform(0.5, 1.5)


def _unless(cancelled: asyncio.CancelledError | None, result: Any) -> Any:
    if cancelled:
        raise cancelled
    return result


class _Calling:
    """A block in which `current_call()` returns this call."""

    def __init__(self, call: Call, id: str) -> None:
        self._here = (call, id)

    def __enter__(self) -> None:
        self._token = declare.current.set(self._here)

    def __exit__(self, *error: object) -> None:
        declare.current.reset(self._token)
