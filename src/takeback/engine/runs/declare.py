"""Declarations of functions: how their effects can be taken back."""

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
from takeback.core.values import plain
from takeback.errors import UsageError
from takeback.resources.calls import handlers
from takeback.resources.calls.handlers import MAIN, name_of
from takeback.resources.calls.resource import Call

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)

TRANSIENT: tuple[type[Exception], ...] = (ConnectionError, TimeoutError)
_DECLARED = "__takeback__"
_PLACEHOLDER = getattr(functools, "Placeholder", object())  # from Python 3.14 on

current: ContextVar[tuple[Call, str] | None] = ContextVar("takeback-call", default=None)
"""The call being made in this context, and the id of its action."""


class BoundHandler(msgspec.Struct, frozen=True):
    """A handler together with data of its own, which it finds in `call.data`."""

    function: Function
    text: bytes
    """The data as JSON: declarations are compared and cached."""

    @property
    def data(self) -> Any:
        return msgspec.json.decode(self.text)


AnyHandler = Function | BoundHandler


def handler(function: Function | str, /, **data: Any) -> BoundHandler:
    """Return a handler with data of its own: `undo=takeback.handler("gateway:call", server="s", tool="close")`.

    The function gets the data as `call.data`. It is stored with the arguments of the call, privately.
    """
    found = handlers.find(function) if isinstance(function, str) else function
    kept = plain(data, f"the data of {getattr(found, '__qualname__', found)}")
    return BoundHandler(found, msgspec.json.encode(kept))


class Declared(msgspec.Struct, frozen=True):
    """The declaration of one function."""

    name: str
    effect: Effect
    undo: AnyHandler | None = None
    check: AnyHandler | None = None
    retries: int = 0
    retry_on: tuple[type[Exception], ...] = TRANSIENT
    volatile: tuple[str, ...] = ()
    simulate: Function | bool = False
    """What stands in for it in a shadow or a rehearsal; True for the function itself."""

    def handlers(self) -> Handlers | None:
        """Return the handlers by name. Raise UsageError if another process could not import one."""
        if not self.undo and not self.check:
            return None
        return Handlers(*(_name(_bare(one)) if one else "" for one in (self.undo, self.check)))

    def data(self) -> dict[str, Any]:
        """Return the data of the handlers that have some, by their roles."""
        both = {"undo": self.undo, "check": self.check}
        return {role: one.data for role, one in both.items() if isinstance(one, BoundHandler)}


def _bare(handler: AnyHandler) -> Function:
    return handler.function if isinstance(handler, BoundHandler) else handler


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
    undo: AnyHandler | None = None,
    check: AnyHandler | None = None,
    retries: int = 0,
    retry_on: tuple[type[Exception], ...] = TRANSIENT,
    volatile: tuple[str, ...] = (),
    name: str = "",
    simulate: Function | bool = False,
) -> Callable[[F], F]: ...


def action(
    function: Any = None,
    /,
    *,
    effect: str = "",
    undo: AnyHandler | None = None,
    check: AnyHandler | None = None,
    retries: int = 0,
    retry_on: tuple[type[Exception], ...] = TRANSIENT,
    volatile: tuple[str, ...] = (),
    name: str = "",
    simulate: Function | bool = False,
) -> Any:
    """Declare how the effect of a function can be taken back. The function itself is not changed.

    With `undo` it is compensable; with neither `effect` nor `undo` its effect stays unknown. `check` looks at the
    world and returns the result of the call, or takeback.ABSENT.
    `volatile` names arguments that do not belong to the intent, such as a new id for each attempt.
    `simulate` stands in for it in a shadow or a rehearsal: a function with the same arguments, or True if this one
    and its handlers look at takeback.simulation() and then reach nothing outside of that folder.
    """

    def declaring(declared: F) -> F:
        chosen = effect_of(effect, undo)
        refuse_lazy(undo=undo, check=check)
        called = name or _called(declared)
        made = Declared(called, chosen, undo, check, retries, tuple(retry_on), tuple(volatile), simulate)
        stand_in(declared, made)
        return declare(declared, made)

    return declaring if function is None else declaring(function)


def stand_in(function: Function, made: Declared) -> None:
    """Note on a function, and on handlers that are safe in a simulation with it, what stands in for them."""
    if made.simulate is False:
        return
    own = [one for one in (made.undo, made.check) if one is not None] if made.simulate is True else []
    for one in (function, *map(_bare, own)):
        try:
            setattr(unwrapped(one)[0], handlers.SIMULATE, made.simulate)
        except (AttributeError, TypeError):
            raise UsageError(f"{_called(one)} cannot have a stand-in", hint="wrap it in a function") from None


def declare(function: F, made: Declared) -> F:
    """Attach a declaration to a function; a built-in function is wrapped in a partial that carries it."""
    try:
        setattr(function, _DECLARED, made)
    except (AttributeError, TypeError):
        around: Any = functools.partial(function)
        setattr(around, _DECLARED, made)
        return around  # type: ignore[no-any-return]
    return function


def refuse_idle(what: str, **named: Function | None) -> None:
    """Raise UsageError for a coroutine or generator function, whose body would never run."""
    for role, handler in named.items():
        if handler is None:
            continue
        function = unwrapped(handler)[0]
        is_one = is_async(function)
        if is_one or _is_generator(function):
            kind = "a coroutine function, which would not be awaited" if is_one else "a generator function"
            raise UsageError(
                f"the {role} {what} {_called(handler)} is {kind}: nothing of it would run",
                hint="use a plain function; it may call asyncio.run() itself",
            )


def refuse_lazy(**handlers: AnyHandler | None) -> None:
    """Raise UsageError for a handler that is a generator function. A coroutine function is run in its own loop."""
    for role, handler in handlers.items():
        if handler is not None and _is_generator(unwrapped(_bare(handler))[0]):
            raise UsageError(
                f"the {role} handler {_called(_bare(handler))} is a generator function: nothing of it would run",
                hint="use a plain function or a coroutine function",
            )


def _is_generator(function: Function) -> bool:
    called = getattr(type(function), "__call__", None)  # noqa: B004  as in is_async
    kinds = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    return any(is_kind(one) for is_kind in kinds for one in (function, called))


def effect_of(named: str, undo: AnyHandler | None) -> Effect:
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
            f"{effect!r} is not an effect", hint="use one of " + ", ".join(known.value for known in Effect)
        ) from None


def declared(function: Function) -> Declared:
    """Return the declaration of a function. Undeclared means unknown: only changes here can be taken back."""
    return _found(function) or Declared(_called(function), Effect.UNKNOWN)


_INSIDE = ("func", "__wrapped__", "function", "_func", "forward", "fn", "coroutine", "_run", "handler")
"""Where the tools of frameworks keep the function that they wrap."""
_WRAPPED_MAX = 64


def declaration_in(tool: Any) -> Declared | None:
    """Return the declaration of the function inside a framework's tool, or None if it has none."""
    pending = [tool]
    for one in pending:
        if isinstance(found := getattr(one, _DECLARED, None), Declared):
            return found
        inner = (getattr(one, name, None) for name in _INSIDE)
        new = [found for found in inner if callable(found) and not any(found is known for known in pending)]
        pending += new[: _WRAPPED_MAX - len(pending)]
    return None


def declared_here(own: Declared, named: str) -> Declared:
    """Return the declaration of a function with the effect that its caller declares.

    For an undeclared function the caller may declare any effect; for others only a more careful one.
    """
    if not named or (effect := _named(named)) is own.effect:
        return own
    if effect is Effect.COMPENSABLE and own.undo is None:
        raise UsageError("a compensable action needs an undo handler", hint="@action(undo=...)")
    if own.effect is not Effect.UNKNOWN and weaker(effect, own.effect):
        raise UsageError(
            f"{own.name} is declared as {own.effect}, so it cannot be called as {effect}; it was not called",
            hint="change its declaration, or use a more careful effect",
        )
    return msgspec.structs.replace(own, effect=effect)


def declared_at(
    name: str, own: Declared | None, effect: str, undo: AnyHandler | None, check: AnyHandler | None
) -> Declared:
    """Return the declaration of a tool that a caller begins by name: its own, or what the caller declares."""
    if own is None:
        refuse_lazy(undo=undo, check=check)
        return Declared(name, effect_of(effect, undo), undo, check)
    if undo or check:
        raise UsageError(f"{name} has a declaration, so it gets no undo or check here; it was not begun")
    return declared_here(own, effect)


def unwrapped(
    function: Function, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
) -> tuple[Function, tuple[Any, ...], dict[str, Any]]:
    """Return the function inside partials, with the arguments of the partials and of the call."""
    named = dict(kwargs or {})
    while isinstance(function, functools.partial):
        later = iter(args)
        first = [next(later, item) if item is _PLACEHOLDER else item for item in function.args]
        args, named = (*first, *later), {**function.keywords, **named}
        function = function.func
    return function, args, named


def hides_something(function: Function) -> bool:
    """Return whether it is an object with state of its own, so that its arguments alone do not identify a call."""
    if hasattr(function, "__qualname__"):
        return False
    state = getattr(function, "__dict__", None)
    return state is None or bool(set(state) - {_DECLARED})


def is_async(function: Function) -> bool:
    """Return whether calling it returns an awaitable."""
    called = getattr(type(function), "__call__", None)  # noqa: B004  inspected, not called
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def _found(function: Function) -> Declared | None:
    """Return the declaration on a function, or on what a partial or an object calls."""
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
    """Return the call being made: its arguments and the key for the other system."""
    here = current.get()
    if here is None:
        raise UsageError(
            "there is no call here",
            hint="takeback.current_call() is for functions run by run.call(), or inside `with action:`",
        )
    return here[0]
