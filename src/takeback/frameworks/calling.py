"""What every adapter does around a tool call: begin it, pass on a human's answer, or tell what is recorded.

begun = threads.begin(thread, "book", {"room": "attic"}, call_id=id, declared=takeback.declared(tool))
if isinstance(begun, Told):
    return …  # the recorded result, or why the call must not be made now
with begun:
    begun.keep(tool(…))
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple, TypeGuard

import takeback
from takeback.errors import UsageError
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace


class HumanAnswer(NamedTuple):
    """A human's answer to a request, as the framework passed it on."""

    granted: bool
    by: str = "the host program"
    why: str = ""


class Failure(NamedTuple):
    """How a tool failed."""

    kind: str
    """The class of its error."""
    text: str


class FailedBefore(Exception):
    """Stands for the error of a call that failed before, with the same text."""


class Told(NamedTuple):
    """What the model is told in place of a call that must not be made now."""

    why: str = ""
    """Why it is not made: it was refused, waits for approval, or is in doubt. Empty if it was made before."""
    value: Any = None
    """Its recorded result, if it was made before."""
    found: bool = False
    """True if its check found the result, or a human told it: the tool's own value, not what the adapter recorded."""
    ask: takeback.Ask | None = None
    """The request that it waits for, if nobody has answered it."""
    failure: Failure | None = None
    """How it failed, if the model was told so: a turn that is run again has to go the same way."""

    @property
    def is_done(self) -> bool:
        """True if the call was made before, so that `value` is its result."""
        return not self.why


UNKEPT = {"unkept": True}
"""Recorded in place of a result that cannot be stored."""

_FAILURE = "how the tool failed"

RECENT_MAX = 256
"""How many conversations of a framework a process has at hand. A server has very many, one after the other."""

Answering = Callable[[takeback.Ask], HumanAnswer | None]
"""Returns what a human answered to a request; None if nobody has."""


class Calling:
    """Begins the calls of a framework."""

    def __init__(self, framework: str) -> None:
        self.framework = framework

    def begin(
        self,
        thread: takeback.Thread,
        name: str,
        args: Mapping[str, Any],
        *,
        answering: Answering | None = None,
        **options: Any,
    ) -> takeback.Action | Told:
        """Begin a call, and return its action if its tool may run now; otherwise what the model is told.

        A call that failed or was cut short is begun again, unless the model was told of the failure. `answering` is
        asked if the call needs approval. `options` are those of `thread.begin`.
        """
        begun = thread.begin(name, args, **options)
        if isinstance(begun, takeback.Ask) and answering and (answer := answering(begun)):
            begun = self._answered(begun, answer)
        if _may_begin_again(begun):
            if begun.outcome == "failed" and thread.was_told(begun):
                with thread.turn(_failure_of(begun)).here():
                    return _told_again(begun, thread.answer(_FAILURE, _forgotten))
            begun = thread.begin(name, args, **_once_more(begun, options))
        return _decided(begun)

    async def abegin(
        self,
        thread: takeback.Thread,
        name: str,
        args: Mapping[str, Any],
        *,
        answering: Answering | None = None,
        **options: Any,
    ) -> takeback.Action | Told:
        """Do what `begin` does, without blocking the event loop. `answering` is called in this task."""
        begun = await thread.abegin(name, args, **options)
        if isinstance(begun, takeback.Ask) and answering and (answer := answering(begun)):
            begun = await self._aanswered(begun, answer)
        if _may_begin_again(begun):
            if begun.outcome == "failed" and await thread.awas_told(begun):
                with thread.turn(_failure_of(begun)).here():
                    return _told_again(begun, await thread.aanswer(_FAILURE, _aforgotten))
            begun = await thread.abegin(name, args, **_once_more(begun, options))
        return _decided(begun)

    def _answered(
        self, ask: takeback.Ask, answer: HumanAnswer
    ) -> takeback.Action | takeback.Denied | takeback.Ask:
        if answer.granted:
            return ask.grant(by=answer.by, via=self.framework)
        return ask.refuse(answer.why, by=answer.by, via=self.framework)

    async def _aanswered(
        self, ask: takeback.Ask, answer: HumanAnswer
    ) -> takeback.Action | takeback.Denied | takeback.Ask:
        if answer.granted:
            return await ask.agrant(by=answer.by, via=self.framework)
        return await ask.arefuse(answer.why, by=answer.by, via=self.framework)


class Threads(Calling):
    """The threads of a framework in a workspace, found by the ids that the framework gives them."""

    def __init__(self, where: Workspace | str | os.PathLike[str], framework: str) -> None:
        super().__init__(framework)
        self._recent: dict[str, takeback.Thread] = {}  # the latest is last
        self._referred: weakref.WeakValueDictionary[str, takeback.Thread] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()
        if isinstance(where, Workspace):
            self.workspace = where
        else:
            self.workspace = open_workspace(where)
            weakref.finalize(self, self.workspace.close)  # with the adapter, or when the program ends

    def of(self, id: str) -> takeback.Thread:
        """Return the thread with this id, opened so that the host program may pass on approvals."""
        with self._lock:
            thread = self._recent.pop(id, None) or self._referred.get(id)
            if thread is None:
                thread = self.workspace.thread(key=f"{self.framework}/{id}", approvals="host")
            self._make_room()
            self._recent[id] = self._referred[id] = thread
            return thread

    def _make_room(self) -> None:
        """Forget the thread that was not asked for longest: the journal has it, unless calls are open here."""
        if len(self._recent) >= RECENT_MAX:
            idle = (id for id, thread in self._recent.items() if thread.is_idle)
            self._recent.pop(next(idle, ""), None)

    def refuse(self, thread: takeback.Thread, call_id: str, answer: HumanAnswer) -> None:
        """Record that a human refused a call, for frameworks that then do not come back to its tool."""
        for approval in self.workspace.approvals():
            if approval.run == thread.id and f"/{approval.asked.key}".endswith(f"/{call_id}"):
                told = ", ".join(filter(None, (answer.why, f"by {answer.by}", f"via {self.framework}")))
                self.workspace.deny(approval.id, told)


@contextmanager
def making(thread: takeback.Thread, action: takeback.Action) -> Iterator[None]:
    """Enter the block of an action, and keep what a model is told if its tool raises."""
    with action:
        try:
            yield
        except Exception as error:
            note_failure(thread, action, Failure(type(error).__name__, str(error)))
            raise


@asynccontextmanager
async def amaking(thread: takeback.Thread, action: takeback.Action) -> AsyncIterator[None]:
    """Do what `making` does, without blocking the event loop."""
    async with action:
        try:
            yield
        except Exception as error:
            await anote_failure(thread, action, Failure(type(error).__name__, str(error)))
            raise


def keep(action: takeback.Action, result: Any) -> None:
    """Keep a result for the record, or that it cannot be stored. Its tool has run, so that must not be an error."""
    try:
        action.keep(result)
    except UsageError:
        action.keep(UNKEPT)


def note_failure(thread: takeback.Thread, action: takeback.Action, failure: Failure) -> None:
    """Keep how a tool failed, in full: the record of an action has only the beginning of its error."""
    with thread.turn(_failure_of(action)).here():
        thread.answer(_FAILURE, failure._asdict)


async def anote_failure(thread: takeback.Thread, action: takeback.Action, failure: Failure) -> None:
    """Do what `note_failure` does, without blocking the event loop."""

    async def noted() -> Any:
        return failure._asdict()

    with thread.turn(_failure_of(action)).here():
        await thread.aanswer(_FAILURE, noted)


def _failure_of(action: takeback.Action) -> str:
    return f"failure of {action.id}"


def _told_again(action: takeback.Action, kept: Any) -> Told:
    kind, _, text = action.error.partition(": ")
    failure = Failure(**kept) if kept else Failure(kind, text)
    return Told(failure.text or failure.kind, failure=failure)


def _forgotten() -> Any:
    return None  # the note was removed by the limits: the beginning of the error is left


async def _aforgotten() -> Any:
    return _forgotten()


def _may_begin_again(
    begun: takeback.Action | takeback.Denied | takeback.Ask,
) -> TypeGuard[takeback.Action]:
    return isinstance(begun, takeback.Action) and begun.known_outcome in ("failed", "cut-short")


def _once_more(begun: takeback.Action, options: dict[str, Any]) -> dict[str, Any]:
    # A call without an id was counted by its first `begin`, and must not count twice.
    known = {} if options.get("call_id") else {"call_id": begun.call_id, "scope": ""}
    return options | {"again": True} | known


def _decided(begun: takeback.Action | takeback.Denied | takeback.Ask) -> takeback.Action | Told:
    if isinstance(begun, takeback.Ask):
        return Told(str(begun), ask=begun)
    if isinstance(begun, takeback.Denied):
        return Told(str(begun))
    outcome = begun.known_outcome
    if outcome == "open":
        begun.refuse_at_work()
        return begun
    if outcome == "done" and begun.result == UNKEPT:
        return Told(f"{begun.name} was made, and what it returned could not be stored; do not make it again")
    if outcome == "done":
        return Told(value=begun.result, found=begun.found)
    return Told(f"{begun.name} is in doubt, and was not made again: {begun.error}")
