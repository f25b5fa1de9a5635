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
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeGuard

import takeback
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace


class HumanAnswer(NamedTuple):
    """A human's answer to a request, as the framework passed it on."""

    granted: bool
    by: str = "the host program"
    why: str = ""


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

    @property
    def is_done(self) -> bool:
        """True if the call was made before, so that `value` is its result."""
        return not self.why


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

        A call that failed or was cut short is begun again. `answering` is asked if the call needs approval.
        `options` are those of `thread.begin`.
        """
        begun = thread.begin(name, args, **options)
        if isinstance(begun, takeback.Ask) and answering and (answer := answering(begun)):
            begun = self._answered(begun, answer)
        if _may_begin_again(begun):
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
        self._known: dict[str, takeback.Thread] = {}
        self._lock = threading.Lock()
        if isinstance(where, Workspace):
            self.workspace = where
        else:
            self.workspace = open_workspace(where)
            weakref.finalize(self, self.workspace.close)  # with the adapter, or when the program ends

    def of(self, id: str) -> takeback.Thread:
        """Return the thread with this id, opened so that the host program may pass on approvals."""
        with self._lock:
            if id not in self._known:
                key = f"{self.framework}/{id}"
                self._known[id] = self.workspace.thread(key=key, approvals="host")
            return self._known[id]

    def refuse(self, thread: takeback.Thread, call_id: str, answer: HumanAnswer) -> None:
        """Record that a human refused a call, for frameworks that then do not come back to its tool."""
        for approval in self.workspace.approvals():
            if approval.run == thread.id and approval.asked.key == call_id:
                told = ", ".join(filter(None, (answer.why, f"by {answer.by}", f"via {self.framework}")))
                self.workspace.deny(approval.id, told)


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
        return begun
    if outcome == "done":
        return Told(value=begun.result, found=begun.found)
    return Told(f"{begun.name} is in doubt, and was not made again: {begun.error}")
