"""Deferring: a run says what is to be sent, and nothing leaves before it has committed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import msgspec

from takeback.core import events as e
from takeback.core import keys
from takeback.core.intents import Intent, IntentDeferred, IntentState
from takeback.core.values import plain, view
from takeback.engine.gate.wanted import Wanted
from takeback.engine.runs import arguments
from takeback.engine.runs.checks import seconds_of, text_of
from takeback.engine.runs.declare import Function, declared, unwrapped
from takeback.engine.runs.step import innermost
from takeback.errors import UsageError
from takeback.resources.calls import handlers
from takeback.senders import registry
from takeback.system import crash_points

if TYPE_CHECKING:
    from takeback.core.history import History
    from takeback.engine.ledger import Ledger
    from takeback.engine.runs.parts import RunParts

DEFERRING = crash_points.crash_point("outbox-deferring")
DEFERRED = crash_points.crash_point("outbox-deferred")

TIMEOUT_S = 30.0
TRIES = 12
TRIES_MAX = 1000


class Handler(msgspec.Struct, frozen=True):
    """Who is to deliver: a built-in sender, or a function that any process finds by its name."""

    handler: str
    name: str
    about: str
    plain: dict[str, Any]
    seen: dict[str, Any]
    named: Any
    undo: str = ""
    check: str = ""

    def wanted(self) -> Wanted:
        """Return what the gate decides on."""
        return Wanted(
            self.name,
            e.Effect.DEFERRED,
            plain=self.plain,
            named=self.named,
            seen=self.seen,
            tool=self.handler,
        )


class Deferring:
    """What has a run that can defer."""

    id: str
    at_work: Any
    _replayed: bool
    _parts: RunParts
    _ledger: Ledger
    _nth: Callable[[bytes], int]
    _innermost: Callable[[], str]

    def defer(
        self,
        handler: str | Function,
        /,
        *args: Any,
        key: str = "",
        order: str = "",
        release: str = "run",
        timeout_s: float = TIMEOUT_S,
        tries: int = TRIES,
        **kwargs: Any,
    ) -> str:
        """Have something sent once the run has committed; gives the id of the intent.

        `handler` is "http", "webhook", "email" or "command", or a function that can be imported. The same key in a
        run is one intent. Intents with the same `order` are delivered one after the other. With `release="step"`
        it leaves when the step has committed, and cannot be held back by the run any more.
        """
        self.at_work.refuse_closed()
        key, order = text_of("the key of an intent", key), text_of("the ordering key", order)
        seconds_of("timeout_s", timeout_s)
        _refuse_no_number(tries)
        found, step = handler_of(handler, args, kwargs), innermost(self)  # type: ignore[arg-type]
        if release not in ("run", "step") or (release == "step" and step is None):
            raise UsageError(
                f"it cannot be released with {release!r} here; nothing was deferred",
                hint='release="run", or "step" inside of a step',
            )
        place = step.path if step else ""
        if not key:
            alike = keys.alike(place, f"defer {found.name}", found.plain)
            key = keys.action_key(place, self._nth(alike), f"defer {found.name}", found.plain)
        wanted = IntentDeferred(
            found.handler,
            found.name,
            key,
            self._innermost(),
            "",
            found.about,
            intent=keys.intent_key(found.handler, found.plain),
            order=order,
            step=place if release == "step" else "",
            undo=found.undo,
            check=found.check,
            timeout_s=timeout_s,
            tries=tries,
        )
        with self.at_work.on(f"defer {key}"):
            return self._deferred(found, wanted)

    def _deferred(self, found: Handler, wanted: IntentDeferred) -> str:
        history = self._ledger.refresh()
        earlier = history.intents.of_key(self.id, wanted.key)
        if earlier and earlier[-1].state is not IntentState.CANCELLED:
            return _same(earlier[-1], wanted)
        if self._replayed:
            raise UsageError(
                f"run {self.id} was committed without this intent ({found.about}); nothing was deferred",
                hint="a changed plan is another run: give it another key",
            )
        passed = self._parts.gate.pass_through(self.id, found.wanted())
        key = self._delivery_key(history, wanted.key, len(earlier))
        with self._keeping(found) as kept:
            crash_points.reach(DEFERRING)
            made = msgspec.structs.replace(wanted, delivery_key=key, arguments=kept.view, full=kept.full)
            record = self._ledger.append([*passed, made], self.id)[-1]
        crash_points.reach(DEFERRED)
        return record.id

    def _keeping(self, found: Handler) -> AbstractContextManager[Any]:
        return self._parts.calls.keeping(found.plain, found.seen)

    def _delivery_key(self, history: History, key: str, cancelled: int) -> str:
        """What the receiver knows it by. One that is deferred again after an undo is another one."""
        began = history.runs[self.id].began
        identity = f"key {began.key}" if began.key else f"run {self.id}"
        return keys.call_key(
            self._parts.tracker.origin, identity, began.generation, f"defer {key}", cancelled
        )


def handler_of(handler: str | Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Handler:
    """Who is to deliver this; a UsageError where nobody could."""
    if isinstance(handler, str) and handler in registry.BUILT_IN:
        kept = _kept(handler, args, kwargs)
        about = registry.about(handler, kept["args"], kept["kwargs"])
        sender, given = registry.sender(handler), kept["kwargs"]
        undo = sender.undo if given.get("undo") else ""
        check = sender.check if given.get("check") else ""
        return Handler(handler, handler, about, kept, view(kept), given, undo, check)
    if isinstance(handler, str):
        function = _imported(handler)
    else:
        function, args, kwargs = unwrapped(handler, args, kwargs)
    name = handlers.name_of(function)
    said = declared(function)
    kept = _kept(said.name, args, kwargs)
    try:
        inspect.signature(function).bind(*kept["args"], **kept["kwargs"])
    except (TypeError, ValueError) as error:
        raise UsageError(f"{said.name} cannot be called like this: {error}; nothing was deferred") from error
    by = said.handlers() or e.Handlers()
    seen = arguments.seen(function, kept)
    return Handler(
        name, said.name, said.name, kept, seen, arguments.by_name(function, kept), by.undo, by.check
    )


def _refuse_no_number(tries: Any) -> None:
    if not isinstance(tries, int) or not 1 <= tries <= TRIES_MAX:
        raise UsageError(f"tries is {tries!r}, not a number from 1 to {TRIES_MAX}; nothing was deferred")


def _imported(name: str) -> Function:
    if ":" not in name:
        built_in = ", ".join(registry.BUILT_IN)
        raise UsageError(
            f"{name!r} is no handler; nothing was deferred",
            hint=f"one of {built_in}; or a function, or its name as package.module:function",
        )
    return handlers.find(name)


def _kept(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return {
        "args": [plain(item, f"argument {n} of {name}") for n, item in enumerate(args, 1)],
        "kwargs": {word: plain(item, f"argument {word} of {name}") for word, item in kwargs.items()},
    }


def _same(earlier: Intent, wanted: IntentDeferred) -> str:
    if earlier.intent != wanted.intent:
        raise UsageError(
            f"the key {wanted.key!r} is that of {earlier.id}, {earlier.about}, with other contents; "
            "nothing was deferred",
            hint="a key names one intent of its run",
        )
    return earlier.id
