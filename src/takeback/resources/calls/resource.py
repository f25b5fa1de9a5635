"""Calls to other systems. A call that was made exists; its undo handler removes it; its check looks for it.

The check's answer counts as the state of the world. Without a check the item stays unverified, and the report says
so.
"""

from __future__ import annotations

import contextvars
import inspect
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.events import Did, Mark
from takeback.core.redact import redact
from takeback.core.rollback import Do
from takeback.core.values import said
from takeback.errors import BackendError, CorruptionError
from takeback.ports.resource import Latest, Swap, Swapped, Traits
from takeback.resources.calls import handlers
from takeback.system import crash_points

RESOURCE = "calls"
TRIES = 3
PAUSE_S = 0.1

UNDOING = crash_points.crash_point("call-undoing")
UNDONE = crash_points.crash_point("call-undone")


class Call(msgspec.Struct, frozen=True):
    """One call, as its handlers see it. `key` is the same for every attempt at the same intent."""

    name: str
    args: list[Any]
    kwargs: dict[str, Any]
    key: str
    result: Any = None
    data: dict[str, Any] = {}
    """What `takeback.handler` gave to this handler."""


class KnownCall(msgspec.Struct, frozen=True):
    """A recorded call, with the names of its handlers."""

    call: Call
    undo: str = ""
    check: str = ""
    because: str = ""
    """Why it cannot be taken back, if more is known about that."""

    def seen_by(self, role: str) -> Call:
        """Return the call with the data of one of its handlers, `undo` or `check`."""
        return (
            msgspec.structs.replace(self.call, data=self.call.data.get(role, {}))
            if self.call.data
            else self.call
        )


class Calls:
    """What runs did in other systems."""

    name = RESOURCE
    traits = Traits(external=True)

    def __init__(
        self, latest: Latest, known: Callable[[str], KnownCall], called: Callable[[str], str]
    ) -> None:
        """`called` returns by what a person knows an action."""
        self._latest = latest
        self._known = known
        self._called = called

    def seen(self, targets: Iterable[Target]) -> Mapping[Target, Version]:
        return {target: self._present(target) for target in targets}

    def merge(self, mine: Version, base: Version, goal: Version) -> Version | str:
        return "a call cannot be merged"

    def tell(self, change: Change, *, back: bool) -> str:
        version = change.before or change.after or self._latest(change.target)
        return self._called(version.data["action"]) if version else ""

    def foresee(self, swaps: Sequence[Swap], kept: Collection[Target]) -> Mapping[Target, tuple[Do, str]]:
        return {swap.target: self._foresee(swap) for swap in swaps}

    def _foresee(self, swap: Swap) -> tuple[Do, str]:
        if swap.goal:
            return Do.LEAVE, "a call is never made again by a redo"
        try:
            known = self._known(swap.present.data["action"])
        except CorruptionError as error:
            return Do.LEAVE, _lost(error)
        if swap.present.data.get("in_doubt") and not _can_tell(known):
            return Do.LEAVE, "it is unknown whether it happened"
        if not known.undo:
            return Do.LEAVE, f"it cannot be taken back{': ' if known.because else ''}{known.because}"
        return Do.COMPENSATE, ""

    def swap(
        self, swaps: Sequence[Swap], rollback: str, *, fresh: bool, since: Mark | None = None
    ) -> Sequence[Swapped]:
        return [self._undo(swap) for swap in swaps]

    def _present(self, target: Target) -> Version:
        """Return what the world has; without a check, what was recorded."""
        recorded = self._latest(target)
        if not recorded:
            return recorded
        try:
            found = look(self._known(recorded.data["action"]))
        except (BackendError, CorruptionError):
            return recorded  # the undo handler may still work; the verdict needs another look
        return ABSENT if found is ABSENT else recorded

    def _undo(self, swap: Swap) -> Swapped:
        try:
            known = self._known(swap.present.data["action"])
        except CorruptionError as error:
            return Swapped(swap.target, Did.FAILED, swap.present, verified=False, why=_lost(error))
        return undone(swap, known)


def undone(swap: Swap, known: KnownCall) -> Swapped:
    """Take a call back with its undo handler, and check the result."""
    try:
        if known.check and look(known) is ABSENT:
            return Swapped(swap.target, Did.ALREADY, ABSENT, verified=True)
    except BackendError:
        pass  # checked again below, where it counts
    crash_points.reach(UNDOING)
    try:
        _patiently(known.undo, known.seen_by("undo"))
    except BackendError as error:
        return Swapped(swap.target, Did.FAILED, swap.present, verified=False, why=error.message)
    crash_points.reach(UNDONE)
    return _verdict(swap, known)


def _verdict(swap: Swap, known: KnownCall) -> Swapped:
    if not known.check:
        why = "it has no check, so the result could not be verified"
        return Swapped(swap.target, Did.COMPENSATED, ABSENT, verified=False, why=why)
    try:
        found = look(known)
    except BackendError as error:
        return Swapped(swap.target, Did.UNVERIFIABLE, swap.present, verified=False, why=error.message)
    if found is ABSENT:
        return Swapped(swap.target, Did.COMPENSATED, ABSENT, verified=True)
    why = f"{known.undo} returned, but {known.check} still finds it"
    return Swapped(swap.target, Did.FAILED, swap.present, verified=True, why=why)


def _lost(error: CorruptionError) -> str:
    return f"its arguments or result are lost, so no handler can be called: {error.message}"


def look(known: KnownCall) -> Any:
    """Run the check of a call. Return what it found in the world, or ABSENT; without a check, the call's result."""
    if not known.check:
        return known.call.result
    found = _patiently(known.check, known.seen_by("check"))
    if found is None:
        raise BackendError(
            f"{known.check} returned None, which is neither yes nor no",
            hint="a check returns what it found, or takeback.ABSENT",
        )
    return ABSENT if isinstance(found, Version) and not found else found


def _can_tell(known: KnownCall) -> bool:
    try:
        return bool(known.check) and look(known) is not ABSENT
    except BackendError:
        return False


def _waited_for(found: Any) -> Any:
    """Return a handler's result. That of a coroutine is awaited in a loop of its own, in a thread of its own:
    this code may itself run inside a loop, which must not be entered again.
    """
    if not inspect.isawaitable(found):
        return found
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    async def awaited() -> Any:
        return await found

    with ThreadPoolExecutor(1, "takeback-handler") as alone:
        return alone.submit(contextvars.copy_context().run, asyncio.run, awaited()).result()


def _patiently(name: str, call: Call) -> Any:
    """Run a handler, with retries: other systems fail for a moment now and then."""
    function = handlers.made_of(handlers.find(name))
    for left in reversed(range(TRIES)):
        try:
            return _waited_for(function(call))
        except Exception as error:
            if not left:
                text = redact(said(error))[:300]
                raise BackendError(f"{name.split(':')[1]} failed {TRIES} times: {text}") from error
            time.sleep(PAUSE_S * 4 ** (TRIES - 1 - left))
    raise AssertionError("unreachable")
