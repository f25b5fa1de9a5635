"""Middleware for LangChain's agents: each tool call is an action of the thread, and so is each answer of the model.

A call that was made is not made again, whichever process resumes the thread. One that needs approval interrupts the
graph.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import interrupt

import takeback
from takeback.errors import UsageError
from takeback.frameworks.answering import attempt_of
from takeback.frameworks.calling import (
    UNKEPT,
    Answering,
    Failure,
    HumanAnswer,
    Threads,
    Told,
    anote_failure,
    note_failure,
)
from takeback.frameworks.langchain import messages
from takeback.frameworks.langgraph.saver import LANGGRAPH, TakebackSaver
from takeback.workspace.workspace import Workspace


class Takeback(AgentMiddleware):
    """Makes the tool calls of an agent actions that can be taken back, and that happen once.

        create_agent(model, tools, middleware=[Takeback(saver)], checkpointer=saver)

    The effect of a tool is what `@takeback.action` declares of its function, and unknown without a declaration. For
    a plain graph: `ToolNode(tools, **Takeback(saver).wrappers)`.
    """

    def __init__(self, workspace: Workspace | TakebackSaver) -> None:
        super().__init__()
        where = workspace.workspace if isinstance(workspace, TakebackSaver) else workspace
        self._threads = Threads(where, LANGGRAPH)
        self._lock = threading.Lock()
        self._said: dict[str, HumanAnswer] = {}
        """The answers for calls that share a task, by their requests."""

    @property
    def wrappers(self) -> dict[str, Any]:
        """The arguments of a ToolNode with which its calls are actions, too."""
        return {"wrap_tool_call": self.wrap_tool_call, "awrap_tool_call": self.awrap_tool_call}

    def _thread(self, runtime: Any) -> takeback.Thread:
        info = runtime.execution_info if runtime else None
        if info is None or not info.thread_id:
            raise UsageError(
                "a graph without a checkpointer or without a thread_id has no thread; no tool was called",
                hint='compile it with checkpointer=saver, and pass {"configurable": {"thread_id": …}}',
            )
        return self._threads.of(info.thread_id)

    # Tools

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """Make a tool call, unless it was made already."""
        thread = self._thread(request.runtime)
        begun = self._threads.begin(thread, **_beginning(request), answering=self._answering(request))
        if isinstance(begun, Told):
            return _told(begun, request)
        with begun:
            result = handler(request)
            failure = _keep(begun, result)
            if failure:
                note_failure(thread, begun, failure)
                begun.end(error=failure.text[:500])
        return result

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Do what `wrap_tool_call` does, without blocking the event loop."""
        thread = self._thread(request.runtime)
        begun = await self._threads.abegin(thread, **_beginning(request), answering=self._answering(request))
        if isinstance(begun, Told):
            return _told(begun, request)
        async with begun:
            result = await handler(request)
            failure = _keep(begun, result)
            if failure:
                await anote_failure(thread, begun, failure)
                await begun.aend(error=failure.text[:500])
        return result

    def _answering(self, request: ToolCallRequest) -> Answering:
        """Return what interrupts the graph to ask its human."""

        def answer(ask: takeback.Ask) -> HumanAnswer:
            call = request.tool_call
            asked = {
                "approve": call["name"],
                "args": call["args"],
                "reason": ask.reason,
                "id": ask.approval,
            }
            if not _shares_its_task(request):
                return _human(interrupt(asked))
            # LangGraph passes the answers of a task on in the order in which they came, to whichever call asks next.
            # So an answer has to name its request.
            asked["resume"] = {"id": ask.approval, "approved": "True or False"}
            with self._lock:
                while ask.approval not in self._said:
                    said = interrupt(asked)
                    if isinstance(said, dict):
                        self._said[str(said.get("id"))] = _human(said)
                return self._said.pop(ask.approval)

        return answer

    # The model

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        """Ask the model, unless its answer to exactly this is recorded.

        A resumed thread then gets the calls with the ids under which they are recorded.
        """
        made: list[Any] = []

        def make() -> Any:
            made.append(handler(request))
            return messages.answered(made[-1])

        thread = self._thread(request.runtime)
        with thread.turn(_position(request, attempt_of(thread))).here():
            kept = thread.answer(_asked(request), make)
        if kept != UNKEPT:
            return ModelResponse(result=messages.answer_of(kept))
        return made[-1] if made else handler(request)

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[Any]]
    ) -> Any:
        """Do what `wrap_model_call` does, without blocking the event loop."""
        made: list[Any] = []

        async def make() -> Any:
            made.append(await handler(request))
            return messages.answered(made[-1])

        thread = self._thread(request.runtime)
        attempt = await asyncio.to_thread(attempt_of, thread)
        with thread.turn(_position(request, attempt)).here():
            kept = await thread.aanswer(_asked(request), make)
        if kept != UNKEPT:
            return ModelResponse(result=messages.answer_of(kept))
        return made[-1] if made else await handler(request)

    # The end of a turn

    def after_agent(self, state: Any, runtime: Any) -> None:
        """Commit what the turn did: what it deferred is sent."""
        self._thread(runtime).commit()

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        """Do what `after_agent` does, without blocking the event loop."""
        await self._thread(runtime).acommit()


def _beginning(request: ToolCallRequest) -> dict[str, Any]:
    """Return the arguments of `begin`. The id of the message scopes the call: some providers count calls from 0."""
    call, info = request.tool_call, request.runtime.execution_info
    return {
        "name": call["name"],
        "args": call["args"],
        "call_id": call["id"] or "",
        "scope": _message_of(call["id"], request.state),
        "declared": takeback.declared(request.tool) if request.tool is not None else None,
        "ref": info.checkpoint_id,
    }


def _message_of(call_id: str | None, state: Any) -> str:
    """Return the id of the model's message that asked for this call; empty if it is not known."""
    message = _asking(call_id, state)
    return (message.id or "") if message else ""


def _asking(call_id: str | None, state: Any) -> AIMessage | None:
    found = state.get("messages", ()) if isinstance(state, dict) else getattr(state, "messages", ())
    for message in reversed(found or ()):
        if isinstance(message, AIMessage) and any(call["id"] == call_id for call in message.tool_calls):
            return message
    return None


def _shares_its_task(request: ToolCallRequest) -> bool:
    """Return whether other calls of the same message are made in the same task, as a plain ToolNode makes them."""
    path = (request.runtime.config.get("metadata") or {}).get("langgraph_path") or ()
    message = _asking(request.tool_call["id"], request.state)
    return message is not None and len(message.tool_calls) > 1 and path[:1] != ("__pregel_push",)


def _human(said: Any) -> HumanAnswer:
    if isinstance(said, dict):
        return HumanAnswer(said.get("approved") is True, str(said.get("by") or "the host program"))
    return HumanAnswer(said is True)


def _told(told: Told, request: ToolCallRequest) -> Any:
    """Return what the model gets in place of a call that must not be made now."""
    call = request.tool_call
    if not told.is_done:
        return ToolMessage(told.why, tool_call_id=call["id"], name=call["name"], status="error")
    return messages.returned(told.value, dict(call), found=told.found)


def _keep(action: takeback.Action, result: Any) -> Failure | None:
    """Keep a result for the record. Return how the call failed, if the tool node made a message of the error."""
    if isinstance(result, ToolMessage) and result.status == "error":
        return Failure("ToolMessage", result.text() or "the tool failed")
    try:
        action.keep(messages.recorded(result))
    except (TypeError, ValueError, UsageError):
        action.keep(UNKEPT)
    return None


def _position(request: ModelRequest, attempt: str) -> str:
    """Return where in the conversation the model is asked. The same question later on is another one."""
    info, said = request.runtime.execution_info, request.state.get("messages", ())
    return f"{info.checkpoint_ns.partition(':')[0]} after {len(said)} messages {attempt}".strip()


def _asked(request: ModelRequest) -> Any:
    return messages.asked(request.system_message, request.messages, request.tools)
