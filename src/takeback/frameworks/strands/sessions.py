"""Sessions of Strands: the conversation is stored beside the history, and each tool call is an action of a thread.

Strands stores the model's message before it runs the tools of that message. So a call has the same id when a session
is resumed, and the model's answers need no record of their own.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

from strands import Agent
from strands.hooks import AfterInvocationEvent, HookRegistry
from strands.middleware import ExecuteToolContext, ExecuteToolStage
from strands.session.repository_session_manager import RepositorySessionManager
from strands.session.session_repository import SessionRepository
from strands.types.events import ToolResultEvent
from strands.types.session import (
    Session,
    SessionAgent,
    SessionMessage,
    decode_bytes_values,
    encode_bytes_values,
)

import takeback
from takeback.errors import RunBusy, UsageError
from takeback.frameworks.calling import UNKEPT, Answering, HumanAnswer, Threads, Told
from takeback.frameworks.session_items import SessionItems
from takeback.workspace.workspace import Workspace


class StrandsSession(RepositorySessionManager):
    """Stores a session, and makes the tool calls of its agents actions that can be taken back, and that happen once.

        Agent(model, tools=tools, session_manager=Takeback("./project", "trip-7"))

    The effect of a tool is what `@takeback.action` declares of its function, and unknown without a declaration.
    """

    def __init__(self, where: Workspace | str | os.PathLike[str], session_id: str) -> None:
        self._threads = Threads(where, "strands")
        self._log = _SessionLog(SessionItems(self._threads.workspace, f"strands/{session_id}"))
        super().__init__(session_id, self._log)

    def register_hooks(self, registry: HookRegistry, **more: Any) -> None:
        """Register what Strands calls. The hooks after an invocation are called in reverse: the commit comes last."""
        registry.add_callback(AfterInvocationEvent, self._commit)
        super().register_hooks(registry, **more)

    def initialize(self, agent: Any, **more: Any) -> None:
        """Restore an agent from the session, and stand around its tool calls from now on."""
        super().initialize(agent, **more)
        if isinstance(agent, Agent):
            agent.add_middleware(ExecuteToolStage, self._around)

    def go_back(self, messages: int, *, agent_id: str = "default") -> takeback.RollbackReport:
        """Go back to where the stored conversation of an agent had this many messages, and take the world along.

        The world goes first. If not all of it can be taken back, RollbackIncomplete is raised, and the conversation
        stays as it is. After a crash in between, call it again. Agents in memory keep their messages: create them
        again.
        """
        after = self._log.position_of(agent_id, messages)
        thread = self._threads.of(self.session_id)
        first = next((action for action in thread.actions() if action.ref > after), None)
        report = thread.go_back(first)
        self._log.items.go_back(after)
        return report

    async def ago_back(self, messages: int, *, agent_id: str = "default") -> takeback.RollbackReport:
        """Do what `go_back` does, without blocking the event loop."""
        return await asyncio.to_thread(self.go_back, messages, agent_id=agent_id)

    async def _commit(self, event: AfterInvocationEvent) -> None:
        """Commit what an invocation did, unless it failed or waits for a human."""
        if event.result is None or event.result.stop_reason in ("interrupt", "cancelled"):
            return
        try:
            await self._threads.of(self.session_id).acommit()
        except RunBusy:
            pass  # a tool goes on in the background: the next invocation commits it

    async def _around(
        self, context: ExecuteToolContext, proceed: Callable[[ExecuteToolContext], AsyncIterator[Any]]
    ) -> AsyncIterator[Any]:
        """Make a tool call, unless it was made already."""
        thread = self._threads.of(self.session_id)
        beginning = _beginning(context) | {"ref": self._log.items.position()}
        begun = await self._threads.abegin(thread, **beginning, answering=_answering(context))
        if isinstance(begun, Told):
            yield ToolResultEvent(_told(begun, context))
            return
        made: Any = None
        async with begun:
            async for event in proceed(context):
                if isinstance(event, ToolResultEvent):
                    made = event
                else:
                    yield event
            await _end(begun, made)
        # The result is on record before anybody else sees it.
        if made is not None:
            yield made


Takeback = StrandsSession  # its public name


class _SessionLog(SessionRepository):
    """The repository of one session: a list of what was stored, in which the last word on something counts."""

    def __init__(self, items: SessionItems) -> None:
        self.items = items

    def position_of(self, agent_id: str, messages: int) -> str:
        """Return the position at which an agent had this many messages."""
        stored = [item for item in self.items.items() if item["kind"] == "message" and item["of"] == agent_id]
        if not 0 <= messages <= len({item["is"]["message_id"] for item in stored}):
            raise UsageError(
                f"the agent {agent_id!r} has no {messages} messages in this session; nothing was taken back",
                hint="`session_repository.list_messages(session_id, agent_id)` lists what is stored",
            )
        later = (item for item in stored if item["is"]["message_id"] >= messages)
        return next((str(item["after"]) for item in later), self.items.position())

    def create_session(self, session: Session, **_: Any) -> Session:
        self._add("session", "", session.to_dict())
        return session

    def read_session(self, session_id: str, **_: Any) -> Session | None:
        found = self._last("session", "")
        return Session.from_dict(found) if found else None

    def create_agent(self, session_id: str, session_agent: SessionAgent, **_: Any) -> None:
        self._add("agent", session_agent.agent_id, session_agent.to_dict())

    def update_agent(self, session_id: str, session_agent: SessionAgent, **_: Any) -> None:
        self.create_agent(session_id, session_agent)

    def read_agent(self, session_id: str, agent_id: str, **_: Any) -> SessionAgent | None:
        found = self._last("agent", agent_id)
        return SessionAgent.from_dict(found) if found else None

    def create_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **_: Any
    ) -> None:
        self._add("message", agent_id, session_message.to_dict())

    def update_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **_: Any
    ) -> None:
        self.create_message(session_id, agent_id, session_message)

    def read_message(
        self, session_id: str, agent_id: str, message_id: int, **_: Any
    ) -> SessionMessage | None:
        found = self._messages(agent_id).get(message_id)
        return SessionMessage.from_dict(found) if found else None

    def list_messages(
        self, session_id: str, agent_id: str, limit: int | None = None, offset: int = 0, **_: Any
    ) -> list[SessionMessage]:
        known = self._messages(agent_id)
        chosen = sorted(known)[offset:][:limit]
        return [SessionMessage.from_dict(known[id]) for id in chosen]

    def _add(self, kind: str, of: str, value: dict[str, Any]) -> None:
        try:
            self.items.add([{"kind": kind, "of": of, "after": self.items.position(), "is": value}])
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"a {kind} cannot be stored in the session: {error}. What came before is stored",
                hint="return values that JSON has from tools, and keep such values in the state of agents",
            ) from error

    def _last(self, kind: str, of: str) -> dict[str, Any] | None:
        found = [item["is"] for item in self.items.items() if (item["kind"], item["of"]) == (kind, of)]
        return found[-1] if found else None

    def _messages(self, agent_id: str) -> dict[int, dict[str, Any]]:
        stored = (item for item in self.items.items() if (item["kind"], item["of"]) == ("message", agent_id))
        return {item["is"]["message_id"]: item["is"] for item in stored}


def _beginning(context: ExecuteToolContext) -> dict[str, Any]:
    """Return the arguments of `begin`. The message that asked scopes the call: some providers count calls from 0."""
    call, tool = context.tool_use, context.tool
    given = call["input"] if isinstance(call["input"], dict) else {"input": call["input"]}
    return {
        "name": call["name"],
        # A direct call passes the agent along.
        "args": {name: value for name, value in given.items() if value is not context.agent},
        "call_id": call["toolUseId"],
        "scope": _message_of(call["toolUseId"], context.agent.messages),
        "declared": takeback.declared(tool) if tool is not None else None,
    }


def _message_of(call_id: str, messages: Any) -> str:
    for message in reversed(messages):
        uses = (block["toolUse"]["toolUseId"] for block in message["content"] if "toolUse" in block)
        if call_id in uses:
            return str(message.get("tracking_id", ""))
    return ""


def _answering(context: ExecuteToolContext) -> Answering:
    """Return what interrupts the agent to ask its human."""

    def answer(ask: takeback.Ask) -> HumanAnswer:
        call = context.tool_use
        reason = {"approve": call["name"], "args": call["input"], "reason": ask.reason, "id": ask.approval}
        said = context.interrupt("takeback", reason=reason).response
        if isinstance(said, dict):
            return HumanAnswer(said.get("approved") is True, str(said.get("by") or "the host program"))
        return HumanAnswer(said is True)

    return answer


def _told(told: Told, context: ExecuteToolContext) -> Any:
    """Return what the model gets in place of a call that must not be made now."""
    id = context.tool_use["toolUseId"]
    if not told.is_done:
        return {"toolUseId": id, "status": "error", "content": [{"text": told.why}]}
    if not told.found:
        return decode_bytes_values(told.value) | {"toolUseId": id}
    text = told.value if isinstance(told.value, str) else json.dumps(told.value)
    return {"toolUseId": id, "status": "success", "content": [{"text": text}]}


async def _end(action: takeback.Action, made: ToolResultEvent | None) -> None:
    """Record the result of a tool; or why it has none."""
    if made is None:
        # The tool itself asked its human. It is called again with the answer.
        await action.aend(error=asyncio.CancelledError("the tool waits for its human"))
    elif made.tool_result.get("status") == "error":
        texts = (block.get("text", "") for block in made.tool_result.get("content", ()))
        await action.aend(error=" ".join(texts)[:500] or "the tool failed")
    else:
        try:
            kept = encode_bytes_values(dict(made.tool_result))
            action.keep(json.loads(json.dumps(kept, allow_nan=False)))
        except (TypeError, ValueError, UsageError):
            action.keep(UNKEPT)
