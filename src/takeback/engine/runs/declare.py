"""What a function says about itself: how what it does can be taken back."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, TypeVar, overload

import msgspec

from takeback.core.events import Effect, Handlers
from takeback.core.plan import weaker
from takeback.errors import UsageError
from takeback.resources.calls.handlers import MAIN, name_of
from takeback.resources.calls.resource import Call

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)

TRANSIENT: tuple[type[Exception], ...] = (ConnectionError, TimeoutError)
_DECLARED = "__takeback__"
_PLACEHOLDER = getattr(functools, "Placeholder", object())  # from Python 3.14 on

current: ContextVar[tuple[Call, str] | None] = ContextVar("takeback-call", default=None)
"""The call that is being made in this context, and the action that it is recorded as."""


class Declared(msgspec.Struct, frozen=True):
    """The declaration of one function."""

    name: str
    effect: Effect
    undo: Function | None = None
    check: Function | None = None
    retries: int = 0
    retry_on: tuple[type[Exception], ...] = TRANSIENT
    volatile: tuple[str, ...] = ()

    def handlers(self) -> Handlers | None:
        """The handlers by their names; a UsageError where another process could not find one."""
        if not self.undo and not self.check:
            return None
        return Handlers(_name(self.undo) if self.undo else "", _name(self.check) if self.check else "")


@functools.lru_cache(maxsize=1024)
def _name(function: Function) -> str:
    name = name_of(function)
    if name.startswith(f"{MAIN}:"):
        warnings.warn(
            f"{function.__qualname__} is part of the script itself, so only this script can call it: "
            "`takeback undo` and `takeback resume` cannot. Move it into a module",
            stacklevel=2,
        )
    return name


@overload
def action(function: F, /) -> F: ...


@overload
def action(
    *,
    effect: str = "",
    undo: Function | None = None,
    check: Function | None = None,
    retries: int = 0,
    retry_on: tuple[type[Exception], ...] = TRANSIENT,
    volatile: tuple[str, ...] = (),
    name: str = "",
) -> Callable[[F], F]: ...


def action(
    function: Any = None,
    /,
    *,
    effect: str = "",
    undo: Function | None = None,
    check: Function | None = None,
    retries: int = 0,
    retry_on: tuple[type[Exception], ...] = TRANSIENT,
    volatile: tuple[str, ...] = (),
    name: str = "",
) -> Any:
    """Declare how what a function does can be taken back. The function itself stays as it is.

    With `undo` it is compensable; with neither `effect` nor `undo` its effect stays unknown. `check` looks at the
    world and gives what the call gave, or takeback.ABSENT.
    `volatile` names arguments that do not belong to the intent, as a new id for each attempt.
    """

    def declaring(declared: F) -> F:
        chosen = effect_of(effect, undo)
        refuse_idle("handler", undo=undo, check=check)
        called = name or _called(declared)
        made = Declared(called, chosen, undo, check, retries, tuple(retry_on), tuple(volatile))
        return declare(declared, made)

    return declaring if function is None else declaring(function)


def declare(function: F, made: Declared) -> F:
    """Let a function say this of itself; one that cannot, as a built-in one, gets something around it that does."""
    try:
        setattr(function, _DECLARED, made)
    except (AttributeError, TypeError):
        around: Any = functools.partial(function)
        setattr(around, _DECLARED, made)
        return around  # type: ignore[no-any-return]
    return function


def refuse_idle(what: str, **named: Function | None) -> None:
    """Raise for a function of which nothing would run if it were called: nobody waits for what it returns."""
    for role, handler in named.items():
        if handler is None:
            continue
        function = unwrapped(handler)[0]
        is_one = is_async(function)
        if is_one or _is_generator(function):
            kind = "a coroutine function, which nobody would wait for" if is_one else "a generator function"
            raise UsageError(
                f"the {role} {what} {_called(handler)} is {kind}: nothing of it would run",
                hint="use a plain function; it may call asyncio.run() itself",
            )


def _is_generator(function: Function) -> bool:
    called = getattr(type(function), "__call__", None)  # noqa: B004  as in is_async
    kinds = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    return any(is_kind(one) for is_kind in kinds for one in (function, called))


def effect_of(named: str, undo: Function | None) -> Effect:
    if not named:
        return Effect.COMPENSABLE if undo else Effect.UNKNOWN
    effect = _named(named)
    if effect is Effect.COMPENSABLE and undo is None:
        raise UsageError("a compensable action needs an undo handler", hint="@action(undo=...)")
    if effect is not Effect.COMPENSABLE and undo is not None:
        raise UsageError(f"an action with an undo handler is compensable, not {named}")
    return effect


def _named(effect: str) -> Effect:
    try:
        return Effect(effect)
    except ValueError:
        raise UsageError(
            f"{effect!r} is no effect", hint="one of " + ", ".join(known.value for known in Effect)
        ) from None


def declared(function: Function) -> Declared:
    """What a function declares. What nobody declared is unknown: only what it does to the workspace comes back."""
    return _found(function) or Declared(_called(function), Effect.UNKNOWN)


def declared_here(own: Declared, named: str) -> Declared:
    """The declaration of a function with the effect that its caller names.

    Of one that is unknown the caller may say anything; of another one only what is more careful.
    """
    if not named or (effect := _named(named)) is own.effect:
        return own
    if effect is Effect.COMPENSABLE and own.undo is None:
        raise UsageError("a compensable action needs an undo handler", hint="@action(undo=...)")
    if own.effect is not Effect.UNKNOWN and weaker(effect, own.effect):
        raise UsageError(
            f"{own.name} is {own.effect}, as it declares itself, and not {effect}; it was not called",
            hint="change its declaration, or name an effect that is more careful",
        )
    return msgspec.structs.replace(own, effect=effect)


def unwrapped(
    function: Function, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
) -> tuple[Function, tuple[Any, ...], dict[str, Any]]:
    """The function inside of partials, with all that it is given by them and by the call."""
    named = dict(kwargs or {})
    while isinstance(function, functools.partial):
        later = iter(args)
        first = [next(later, item) if item is _PLACEHOLDER else item for item in function.args]
        args, named = (*first, *later), {**function.keywords, **named}
        function = function.func
    return function, args, named


def hides_something(function: Function) -> bool:
    """Whether it is an object with a state of its own, so that its arguments do not say what is wanted."""
    if hasattr(function, "__qualname__"):
        return False
    state = getattr(function, "__dict__", None)
    return state is None or bool(set(state) - {_DECLARED})


def is_async(function: Function) -> bool:
    """Whether calling it gives something to wait for."""
    called = getattr(type(function), "__call__", None)  # noqa: B004  it is looked at, not asked for
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def _found(function: Function) -> Declared | None:
    """The declaration on a function, or on what a partial or an object calls."""
    while True:
        called = None if hasattr(function, "__qualname__") else getattr(type(function), "__call__", None)  # noqa: B004
        for place in (function, called):
            if isinstance(found := getattr(place, _DECLARED, None), Declared):
                return found
        if not isinstance(function, functools.partial):
            return None
        function = function.func


def _called(function: Function) -> str:
    function, _, _ = unwrapped(function)
    return getattr(function, "__qualname__", "") or type(function).__qualname__


def current_call() -> Call:
    """The call that is being made: its arguments and the key for the other system."""
    here = current.get()
    if here is None:
        raise UsageError(
            "there is no call here", hint="takeback.current_call() is for functions run by run.call()"
        )
    return here[0]
