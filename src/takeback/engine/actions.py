"""What a function says about itself: how what it does can be taken back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar, overload

import msgspec

from takeback.core.events import Effect, Handlers
from takeback.errors import UsageError
from takeback.resources.calls.handlers import name_of
from takeback.resources.calls.resource import Call

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)

TRANSIENT: tuple[type[Exception], ...] = (ConnectionError, TimeoutError)
_DECLARED = "__takeback__"

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


_name = functools.lru_cache(maxsize=1024)(name_of)


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

    With `undo` it is compensable. `check` looks at the world and gives what the call gave, or takeback.ABSENT.
    `volatile` names arguments that do not belong to the intent, as a new id for each attempt.
    """

    def declare(declaring: F) -> F:
        chosen = _effect(effect, undo)
        called = name or declaring.__qualname__
        made = Declared(called, chosen, undo, check, retries, tuple(retry_on), tuple(volatile))
        setattr(declaring, _DECLARED, made)
        return declaring

    return declare if function is None else declare(function)


def _effect(named: str, undo: Function | None) -> Effect:
    if not named:
        return Effect.COMPENSABLE if undo else Effect.RESTORABLE
    try:
        effect = Effect(named)
    except ValueError:
        raise UsageError(
            f"{named!r} is no effect", hint="one of " + ", ".join(known.value for known in Effect)
        ) from None
    if effect is Effect.COMPENSABLE and undo is None:
        raise UsageError("a compensable action needs an undo handler", hint="@action(undo=...)")
    if effect is not Effect.COMPENSABLE and undo is not None:
        raise UsageError(f"an action with an undo handler is compensable, not {named}")
    return effect


def declared(function: Function) -> Declared:
    """What a function declares. One that declares nothing is watched: what it does to the workspace comes back."""
    found = getattr(function, _DECLARED, None)
    if isinstance(found, Declared):
        return found
    name = getattr(function, "__qualname__", "") or type(function).__name__
    return Declared(name, Effect.RESTORABLE)


def current_call() -> Call:
    """The call that is being made: its arguments and the key for the other system."""
    here = current.get()
    if here is None:
        raise UsageError(
            "there is no call here", hint="takeback.current_call() is for functions run by run.call()"
        )
    return here[0]
