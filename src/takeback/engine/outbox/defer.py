"""Deferring: a run records what is to be sent, and nothing is sent before the run has committed."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import msgspec

from takeback.core import events as e
from takeback.core import keys
from takeback.core.history import History
from takeback.core.intents import Intent, IntentDeferred, IntentState
from takeback.core.rules import Ruling
from takeback.core.values import plain, shortened, view
from takeback.engine.gate.wanted import Wanted
from takeback.engine.runs import arguments
from takeback.engine.runs.declare import Function, declared, unwrapped
from takeback.engine.runs.step import RunContext
from takeback.errors import UsageError
from takeback.resources.calls import handlers
from takeback.senders import registry
from takeback.system import crash_points

if TYPE_CHECKING:
    from takeback.engine.shadow.shadow import Shadow

DEFERRING = crash_points.crash_point("outbox-deferring")
DEFERRED = crash_points.crash_point("outbox-deferred")

TIMEOUT_S = 30.0
TRIES = 12
TRIES_MAX = 1000


class Handler(msgspec.Struct, frozen=True):
    """The handler of an intent: a built-in sender, or a function that any process can import by name."""

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


def defer(
    run: RunContext,
    found: Handler,
    *,
    key: str,
    order: str,
    release: str,
    timeout_s: float,
    tries: int,
) -> str:
    """Record what is to be sent once the run, or its step, has committed. Return the id of the intent."""
    step = run.step
    if release not in ("run", "step") or (release == "step" and step is None):
        raise UsageError(
            f"an intent cannot be released with {release!r} here; nothing was deferred",
            hint='use release="run", or "step" inside a step',
        )
    place = step.path if step else ""
    if not key:
        alike = keys.alike(place, f"defer {found.name}", found.plain)
        key = keys.action_key(place, run.nth(alike), f"defer {found.name}", found.plain)
    wanted = IntentDeferred(
        found.handler,
        found.name,
        key,
        run.action,
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
    with run.at_work.on(f"defer {key}"):
        if run.options.shadow is not None:
            return _intended(run, run.options.shadow, found, wanted, release)
        return _deferred(run, found, wanted)


def _intended(run: RunContext, shadow: Shadow, found: Handler, wanted: IntentDeferred, release: str) -> str:
    """Take down what a shadow would send. Nothing of it reaches an outbox."""
    from takeback.engine.shadow.shadow import Intention

    gate, asked = run.parts.gate, found.wanted()
    ruling = gate.rule(asked)
    if ruling.do is Ruling.DENY:
        gate.refuse(run.id, asked, ruling)
    step = run.step
    options = {
        "order": wanted.order,
        "release": release,
        "timeout_s": wanted.timeout_s,
        "tries": wanted.tries,
    }
    intention = Intention(
        "intent",
        found.name,
        e.Effect.DEFERRED,
        found.plain,
        found.seen,
        "held",
        found.handler,
        found.handler,
        step.path if step else "",
        wanted.key,
        asks=ruling.why if ruling.do is Ruling.ASK else "",
        undo=found.undo,
        options=options,
    )
    noted = e.ActionNoted(
        f"defer {found.about}",
        e.Outcome.DONE,
        step.id if step else "",
        run.action,
        f"defer {wanted.key}",
        shortened(found.seen),
        tool=found.handler,
        intended=e.Effect.DEFERRED,
    )
    (record,) = run.ledger.append([noted], run.id)
    shadow.take_down(intention)
    return record.id


def _deferred(run: RunContext, found: Handler, wanted: IntentDeferred) -> str:
    history = run.ledger.refresh()
    earlier = history.intents.of_key(run.id, wanted.key)
    if earlier and earlier[-1].state is not IntentState.CANCELLED:
        return _same(earlier[-1], wanted)
    if run.replayed:
        raise UsageError(
            f"run {run.id} was committed without this intent ({found.about}); nothing was deferred",
            hint="a changed plan is another run: use another key",
        )
    passed = run.parts.gate.pass_through(run.id, found.wanted())
    key = _delivery_key(run, history, wanted.key, len(earlier))
    with run.parts.calls.keeping(found.plain, found.seen) as kept:
        crash_points.reach(DEFERRING)
        made = msgspec.structs.replace(wanted, delivery_key=key, arguments=kept.view, full=kept.full)
        record = run.ledger.append([*passed, made], run.id)[-1]
    crash_points.reach(DEFERRED)
    return record.id


def _delivery_key(run: RunContext, history: History, key: str, cancelled: int) -> str:
    """Return the idempotency key for the receiver. An intent deferred again after an undo gets a new one."""
    began = history.runs[run.id].began
    identity = f"key {began.key}" if began.key else f"run {run.id}"
    return keys.call_key(run.tracker.origin, identity, began.generation, f"defer {key}", cancelled)


def handler_of(handler: str | Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Handler:
    """Return the handler that delivers this. Raise UsageError if there is none."""
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
    if said.data():
        raise UsageError(
            f"{said.name} has handlers with data, which only calls can have; nothing was deferred"
        )
    by = said.handlers() or e.Handlers()
    seen = arguments.seen(function, kept)
    return Handler(
        name, said.name, said.name, kept, seen, arguments.by_name(function, kept), by.undo, by.check
    )


def refuse_no_number(tries: Any) -> None:
    if not isinstance(tries, int) or not 1 <= tries <= TRIES_MAX:
        raise UsageError(f"tries is {tries!r}, not a number from 1 to {TRIES_MAX}; nothing was deferred")


def _imported(name: str) -> Function:
    if ":" not in name:
        built_in = ", ".join(registry.BUILT_IN)
        raise UsageError(
            f"{name!r} is not a handler; nothing was deferred",
            hint=f"use {built_in}, a function, or its name as package.module:function",
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
            f"the key {wanted.key!r} was already used for {earlier.id}, {earlier.about}, with other contents; "
            "nothing was deferred",
            hint="a key identifies one intent of its run",
        )
    return earlier.id
