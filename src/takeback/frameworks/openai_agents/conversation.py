"""One conversation of a protected agent: its thread, the turn that runs, and what happens around each call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import takeback
from takeback.errors import UsageError
from takeback.frameworks.calling import FailedBefore, HumanAnswer, Threads, Told, amaking, keep
from takeback.frameworks.openai_agents.session import TakebackSession
from takeback.frameworks.openai_agents.tracing import current_span, link

_inside: ContextVar[str] = ContextVar("takeback-openai-agents-inside", default="")
"""The calls of agents that are tools which this code is in."""


class WantedCall(NamedTuple):
    """A call that a model asks for."""

    name: str
    args: Mapping[str, Any]
    call_id: str
    """Empty if the framework tells none: then it is identified by what it does, and how often in its turn."""
    declared: Any = None
    effect: str = ""
    """Its effect if it is not declared."""
    answer: bool | None = None
    """What a human answered through the framework."""


class Conversation:
    """The calls and the answers of one conversation."""

    def __init__(self, threads: Threads, id: str, session: TakebackSession | None) -> None:
        self.threads = threads
        self.session = session
        self.thread = threads.of(id)
        self._here: tuple[str, int, takeback.Turn] | None = None

    async def make(
        self, wanted: WantedCall, call: Callable[[], Awaitable[Any]], recorded: Callable[[Any], Any]
    ) -> Any | Told:
        """Make a call, unless it was made already or must not be made: then return what is told in its place.

        Raise FailedBefore if the model was told that the call failed.
        """
        answer = None if wanted.answer is None else HumanAnswer(wanted.answer)
        options = await self._options(wanted)
        try:
            with self._entered(await self.position()).here():
                begun = await self.threads.abegin(
                    self.thread, wanted.name, wanted.args, answering=lambda _: answer, **options
                )
        except UsageError as error:
            return Told(
                str(error)
            )  # the model gave arguments that cannot be recorded, and nothing was called
        if isinstance(begun, Told):
            if begun.failure:
                raise FailedBefore(begun.failure.text)
            return begun
        async with amaking(self.thread, begun):
            link(self.thread.key, begun.id, wanted.name)
            result = await call()
            keep(begun, recorded(result))
        return result

    async def needs_approval(self, wanted: WantedCall) -> bool:
        """Return whether a human has to answer before this call. The request is recorded."""
        options = await self._options(wanted)
        try:
            return bool(await self.thread.arequest(wanted.name, wanted.args, again=True, **options))
        except UsageError:
            return False  # `make` tells the model why, and does not call the tool

    async def _options(self, wanted: WantedCall) -> dict[str, Any]:
        turn = await self._turn()
        options: dict[str, Any] = {"call_id": wanted.call_id, "ref": f"{turn} {current_span()}".strip()}
        options["scope"] = f"{turn}/{_inside.get()}".strip("/")
        return options | {"declared": wanted.declared, "effect": "" if wanted.declared else wanted.effect}

    async def position(self) -> str:
        """Return where in the conversation this code is: the same wherever the turn is resumed."""
        return f"turn {await self._turn()} {_inside.get()}".strip()

    def _entered(self, position: str) -> takeback.Turn:
        """Return the turn in which calls without an id are counted, from its beginning or its resumption on."""
        attempt = self.session.attempt if self.session else 0
        if self._here is None or self._here[:2] != (position, attempt):
            self._here = (position, attempt, self.thread.turn(position))
        return self._here[2]

    async def _turn(self) -> str:
        return await self.session.turn_id() if self.session else ""

    async def refuse(self, answered: set[str]) -> None:
        """Deny the requests for calls that have an output and were never made: their human refused them."""
        await asyncio.to_thread(self._refuse, answered)

    def _refuse(self, answered: set[str]) -> None:
        workspace = self.threads.workspace
        for approval in workspace.approvals():
            if approval.run == self.thread.id and approval.asked.key.rpartition("/")[2] in answered:
                workspace.deny(approval.id, "refused in OpenAI Agents")

    async def commit(self) -> None:
        """Commit what the turn did, unless this is the end of an agent that is a tool."""
        if not _inside.get():
            await self.thread.acommit()

    @contextmanager
    def inside(self, call_id: str) -> Iterator[None]:
        """Enter the call of an agent that is a tool: what it asks and calls belongs to this call."""
        before = _inside.get()
        _inside.set(f"{before}/{call_id}".strip("/"))
        try:
            yield
        finally:
            _inside.set(before)
