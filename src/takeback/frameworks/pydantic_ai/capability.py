"""A capability for agents of pydantic-ai: each tool call is an action of the conversation's thread.

A call that was made is not made again, whichever process runs the turn again. One that needs approval is deferred, as
pydantic-ai's own approvals are. The conversation is kept, and goes back together with the world.
"""

from __future__ import annotations

import asyncio
import copy
import os
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.conversation import Conversation, ConversationTypeAdapter
from pydantic_ai.exceptions import ApprovalRequired, ModelRetry, ToolFailed
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse, ToolReturn
from pydantic_ai.tools import DeferredToolRequests
from pydantic_core import PydanticSerializationError, to_jsonable_python

import takeback
from takeback.errors import UsageError
from takeback.frameworks.answering import AnswersWithCalls, question
from takeback.frameworks.calling import UNKEPT, HumanAnswer, Threads, Told, amaking, keep
from takeback.frameworks.session_items import SessionItems
from takeback.workspace.workspace import Workspace

PYDANTIC_AI = "pydantic-ai"


class TakebackCapability(AbstractCapability[Any]):
    """Makes the tool calls of an agent actions that can be taken back, and that happen once.

        undoing = Takeback("./project")
        agent = Agent(model, tools=tools, capabilities=[undoing])
        await agent.run("go", conversation=undoing.conversation("1"))

    The effect of a tool is what `@takeback.action` declares of its function, and unknown without a declaration.
    """

    def __init__(self, workspace: Workspace | str | os.PathLike[str]) -> None:
        super().__init__()
        self._threads = Threads(workspace, PYDANTIC_AI)
        self._thread: takeback.Thread
        self._answers: AnswersWithCalls
        self._turn: takeback.Turn
        self._start = 0

    @property
    def workspace(self) -> Workspace:
        """The workspace in which the tools work."""
        return self._threads.workspace

    # The conversation

    def conversation(self, conversation_id: str) -> Conversation:
        """Return a conversation as it was after its last run, or a new one: for `agent.run(conversation=…)`."""
        items = self._items(conversation_id).items()
        rest: dict[str, Any] = next((item["rest"] for item in reversed(items) if "rest" in item), {})
        said = [item["message"] for item in items if "message" in item]
        if not items or "rest" not in items[-1]:
            rest = {name: value for name, value in rest.items() if name != "deferred_tool_requests"}
        found = ConversationTypeAdapter.validate_python(rest | {"conversation_id": conversation_id})
        found.messages = _loaded(said)
        return found

    async def aconversation(self, conversation_id: str) -> Conversation:
        """Do what `conversation` does, without blocking the event loop."""
        return await asyncio.to_thread(self.conversation, conversation_id)

    def go_back(self, conversation_id: str, *, keep: int) -> takeback.RollbackReport:
        """Go back to the first `keep` messages: take back what the tools did since, and forget what was said since.

        The world goes first. If not all of it can be taken back, RollbackIncomplete is raised, and the conversation
        stays as it is. After a crash in between, call it again.
        """
        items = self._items(conversation_id)
        stored = items.items()
        ends = [number for number, item in enumerate(stored, start=1) if "message" in item]
        if not 0 <= keep <= len(ends):
            raise UsageError(
                f"conversation {conversation_id} has {len(ends)} messages, so {keep} cannot be kept; "
                "nothing was taken back",
                hint="`conversation(id).messages` has the messages that are stored",
            )
        thread = self._threads.of(conversation_id)
        report = thread.go_back(_first_after(thread, keep))
        end = ends[keep - 1] if keep else 0
        if keep and end < len(stored) and "rest" in stored[end]:
            end += 1
        for _ in stored[end:]:
            items.pop()
        return report

    async def ago_back(self, conversation_id: str, *, keep: int) -> takeback.RollbackReport:
        """Do what `go_back` does, without blocking the event loop."""
        return await asyncio.to_thread(lambda: self.go_back(conversation_id, keep=keep))

    def _items(self, conversation_id: str) -> SessionItems:
        return SessionItems(self.workspace, f"{PYDANTIC_AI}/{conversation_id}")

    def _save(self, conversation: Conversation) -> None:
        """Store a conversation: what is new is appended. If earlier messages were changed, they are replaced."""
        items = self._items(conversation.conversation_id)
        dumped = ConversationTypeAdapter.dump_python(conversation, mode="json", exclude={"messages"})
        rest = {name: value for name, value in dumped.items() if name in ("usage", "deferred_tool_requests")}
        new = [{"message": message} for message in _dumped(conversation.messages)]
        stored = items.items()
        shared, said = 0, 0
        for item in stored:
            if "message" in item:
                if said == len(new) or item != new[said]:
                    break
                said += 1
            shared += 1
        for _ in stored[shared:]:
            items.pop()
        items.add([*new[said:], {"rest": rest}])

    # A run is a turn

    async def for_run(self, ctx: Any) -> AbstractCapability[Any]:
        """Return a copy for one run, which is one turn of its conversation."""
        mine = copy.copy(self)
        mine._start = len(ctx.messages)
        mine._thread = self._threads.of(ctx.conversation_id)
        mine._turn = mine._thread.turn(f"after {mine._start} messages")
        mine._answers = AnswersWithCalls(mine._thread)
        return mine

    async def wrap_run(self, ctx: Any, *, handler: Callable[[], Any]) -> Any:
        """Run the turn. Its end stores the conversation and commits, unless it waits for an approval."""
        async with self._turn:
            result = await handler()
        await asyncio.to_thread(self._save, result.conversation)
        if not isinstance(result.output, DeferredToolRequests):
            await self._thread.acommit()
        return result

    # The model

    async def wrap_model_request(
        self, ctx: Any, *, request_context: Any, handler: Callable[[Any], Any]
    ) -> ModelResponse:
        """Ask the model, unless calls of its answer to exactly this were begun: then they come with the same ids."""
        said = _dumped(request_context.messages)
        if refused := [part for part in said[-1]["parts"] if part.get("outcome") == "denied"]:
            await asyncio.to_thread(self._note_refusals, refused)
        asked = question(f"{self._turn.ref}, asked after {len(said)}", _asked(said))
        if kept := await self._answers.recorded(asked):
            known: ModelResponse = ModelMessagesTypeAdapter.validate_python([kept])[0]
            self._answers.known(asked, [call.tool_call_id for call in known.tool_calls])
            return known
        response: ModelResponse = await handler(request_context)
        ids = [call.tool_call_id for call in response.tool_calls]
        if ids:
            self._answers.made(asked, _dumped([response])[0], ids)
        return response

    def _note_refusals(self, refused: list[Any]) -> None:
        """Record refusals: pydantic-ai does not run the tool of a call that was refused, nor any hook."""
        for part in refused:
            answer = HumanAnswer(granted=False, why=str(part["content"]))
            self._threads.refuse(self._thread, part["tool_call_id"], answer)

    # Tools

    async def wrap_tool_execute(
        self, ctx: Any, *, call: Any, tool_def: Any, args: dict[str, Any], handler: Callable[[Any], Any]
    ) -> Any:
        """Make a tool call, unless it was made already."""
        await self._answers.before(call.tool_call_id)
        with self._turn.here():
            begun = await self._threads.abegin(
                self._thread,
                call.tool_name,
                _plain(args, call),
                call_id=call.tool_call_id,
                scope=self._answers.scope_of(call.tool_call_id) or self._turn.ref,
                declared=_declared(ctx, call.tool_name),
                ref=f"{self._start}/{len(ctx.messages)}",
                answering=lambda _: _approved(ctx),
            )
        if isinstance(begun, Told):
            return _told(begun)
        async with amaking(self._thread, begun):
            result = await handler(args)
            keep(begun, recorded(result))
        return result


Takeback = TakebackCapability  # its public name


def _first_after(thread: takeback.Thread, keep: int) -> Any:
    """Return the first call that was made after this many messages, or its turn if that began there, too."""
    for action in thread.actions():
        start, _, position = action.ref.partition("/")
        if int(position) >= keep:
            return (int(start) >= keep and action.turn) or action
    return None


def _plain(args: dict[str, Any], call: Any) -> dict[str, Any]:
    """Return the arguments of a call as JSON values: those of the tool or, if JSON lacks them, those of the model."""
    try:
        return dict(to_jsonable_python(args))
    except PydanticSerializationError:
        return dict(call.args_as_dict())


def _declared(ctx: Any, name: str) -> Any:
    """Return the declaration of the function of a tool, inside whatever toolsets hold it."""
    tool = ctx.tool_manager.tools.get(name) if ctx.tool_manager and ctx.tool_manager.tools else None
    while (inner := getattr(tool, "source_tool", None)) is not None:
        tool = inner
    function = getattr(tool, "call_func", None)
    return takeback.declared(getattr(function, "__self__", function)) if function else None


def _approved(ctx: Any) -> HumanAnswer | None:
    """Return the approval of a human, as the results of deferred calls have it."""
    if not ctx.tool_call_approved:
        return None
    by = ctx.tool_call_metadata.get("by") if isinstance(ctx.tool_call_metadata, dict) else None
    return HumanAnswer(True, str(by)) if by else HumanAnswer(True)


def _told(told: Told) -> Any:
    """Return the result of a call that was made before, or raise what pydantic-ai makes of any other."""
    if told.ask:
        raise ApprovalRequired({"reason": told.ask.reason, "id": told.ask.approval})
    if told.failure and told.failure.kind == "ToolRetryError":  # what pydantic-ai makes of ModelRetry
        raise ModelRetry(told.failure.text)
    if not told.is_done:
        raise ToolFailed(told.why)
    return returned(told.value, found=told.found)


# Messages and results as JSON values

# What says something, of all that a part of a message has. The rest differs each time: times, ids of runs.
_SAYING = ("part_kind", "content", "tool_name", "tool_call_id", "args", "outcome")

_returns: TypeAdapter[Any] = TypeAdapter(ToolReturn)


def recorded(result: Any) -> Any:
    """Return what a tool returned, as JSON values; UNKEPT if that is impossible."""
    try:
        if isinstance(result, ToolReturn):
            return {"return": _returns.dump_python(result, mode="json")}
        return {"value": to_jsonable_python(result)}
    except (PydanticSerializationError, ValueError):
        return UNKEPT


def returned(kept: Any, *, found: bool) -> Any:
    """Return what the agent gets again. `found` means that the call's check found the tool's own value."""
    if found or not isinstance(kept, dict):
        return kept
    return _returns.validate_python(kept["return"]) if "return" in kept else kept.get("value")


def _dumped(messages: Sequence[ModelMessage]) -> list[Any]:
    found: list[Any] = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    return found


def _loaded(kept: Sequence[Any]) -> list[ModelMessage]:
    return list(ModelMessagesTypeAdapter.validate_python(list(kept)))


def _asked(dumped: Sequence[Any]) -> Any:
    """Return what a model is asked: roles, texts, calls and results.

    Instructions and tools do not count. They may have the time in them, or be those of a newer program, and what
    was done to this point was done all the same.
    """
    return [
        {
            "role": message["kind"],
            "said": [{name: part.get(name) for name in _SAYING} for part in _spoken(message)],
        }
        for message in dumped
    ]


def _spoken(message: Any) -> list[Any]:
    return [part for part in message["parts"] if part["part_kind"] != "system-prompt"]
