"""A workbench for AutoGen: each tool call is an action of a thread, and so is each answer of the model.

AssistantAgent waits for ever if a workbench raises. So whatever stops a turn is told to the agent as an error of the
tool, and raised where the agent asks its model next, or at the end of the turn.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from os import PathLike
from typing import Any, NamedTuple

from autogen_core import CancellationToken
from autogen_core.models import ChatCompletionClient, CreateResult, LLMMessage
from autogen_core.tools import (
    BaseTool,
    FunctionTool,
    StaticStreamWorkbench,
    StaticWorkbench,
    TextResultContent,
    ToolResult,
    Workbench,
)
from pydantic import TypeAdapter

import takeback
from takeback.core import keys
from takeback.errors import RefusedError, UsageError
from takeback.frameworks.answering import ask_anew, attempt_of
from takeback.frameworks.calling import Failure, Threads, Told, anote_failure, keep
from takeback.frameworks.session_items import SessionItems
from takeback.workspace.workspace import Workspace as TakebackWorkspace

FRAMEWORK = "autogen"
_MESSAGES: TypeAdapter[Any] = TypeAdapter(Sequence[LLMMessage])


class ApprovalPending(RefusedError):
    """Stops a turn: a call needs a human's approval. Take the same turn again when there is an answer."""

    def __init__(self, ask: takeback.Ask) -> None:
        super().__init__(
            f"{ask.name} waits for approval {ask.approval}: {ask.reason}. It was not called",
            hint=f"{ask.how}, and take the same turn again",
        )
        self.approval = ask.approval
        """The id of the request, for `tb.approve` or `tb.deny`."""
        self.tool = ask.name


class StoredTurn(NamedTuple):
    """One turn that was completed."""

    name: str
    start: str
    """The position before it."""
    end: str
    """The position after it."""


class TakebackWorkbench(StaticStreamWorkbench):
    """Makes the tool calls of an agent or a team actions that can be taken back, and that happen once.

        workbench = TakebackWorkbench([book], "./project", thread="1")
        client = TakebackModelClient(model, workbench)
        agent = AssistantAgent("clerk", client, workbench=workbench)
        async with workbench.turn(agent):
            await agent.run(task="go")

    `tools` are functions and tools, or another workbench. `where` is a workspace or its folder.
    """

    def __init__(
        self,
        tools: Workbench | Sequence[BaseTool[Any, Any] | Callable[..., Any]],
        where: TakebackWorkspace | str | PathLike[str],
        *,
        thread: str,
    ) -> None:
        self._other: Workbench | None = None
        if isinstance(tools, StaticWorkbench):
            super().__init__(tools._tools, tools._tool_overrides)
        elif isinstance(tools, Workbench):
            super().__init__([])
            self._other = tools
        else:
            super().__init__([one if isinstance(one, BaseTool) else _function_tool(one) for one in tools])
        self._threads = Threads(where, FRAMEWORK)
        self._items = SessionItems(self._threads.workspace, f"{FRAMEWORK}/{thread}")
        self.thread = self._threads.of(thread)
        self._position: str | None = None
        self._stopped: BaseException | None = None
        self._at_work: set[asyncio.Task[Any]] = set()
        self._scopes: dict[str, str] = {}
        self._is_dirty = False
        """True if an agent of this process may know more than what is stored."""

    # Turns

    @asynccontextmanager
    async def turn(self, agent: Any, name: str = "") -> AsyncIterator[None]:
        """Enter a turn of an agent or a team, which begins with the state that the last one ended with.

        At its end the turn is committed, and the state is stored. A turn that is left by an exception is neither:
        the same block in any process takes it again, and what it did is not done again.
        """
        self._position, self._stopped = await asyncio.to_thread(self._items.position), None
        await self._load(agent)
        try:
            yield
        except BaseException as error:
            self._is_dirty = True
            await self._end_calls()
            if isinstance(error, Exception):
                self.stop_if_told(error)  # a team makes other errors of what its agents raise
            raise
        self._is_dirty = True
        self.stop_if_told()
        self._is_dirty = False
        state = await agent.save_state()
        # In this order: a process that is killed in between takes the turn again, and nothing is done twice.
        await self.thread.acommit()
        await asyncio.to_thread(self._items.add, [{"name": name, "state": state}])
        self._position = None

    async def turns(self) -> list[StoredTurn]:
        """Return the completed turns, in order."""
        found: list[StoredTurn] = []
        for position, (kept,) in await asyncio.to_thread(self._items.batches):
            found.append(StoredTurn(kept["name"], found[-1].end if found else "", position))
        return found

    async def go_back(self, position: str) -> takeback.RollbackReport:
        """Go back to the start or the end of a turn: take back what tools did since, and forget what was said since.

        The next turn of an agent begins with the state of that time. The world goes first. If not all of it can be
        taken back, RollbackIncomplete is raised, and the stored state stays as it is.
        """
        if position and position not in {turn.end for turn in await self.turns()}:
            raise UsageError(
                f"{self.thread.key} has no turn that ends at {position}; nothing was taken back",
                hint="`await workbench.turns()` lists the turns, each with its start and its end",
            )
        report = await asyncio.to_thread(self._go_back, position)
        self._position, self._is_dirty = None, True
        return report

    def _go_back(self, position: str) -> takeback.RollbackReport:
        # A call names the position before its turn. Positions are in the order of time.
        made = self.thread.actions()
        first = next((action for action in made if action.ref.partition(" ")[0] >= position), None)
        report = self.thread.go_back(first)
        ask_anew(self.thread)
        self._items.go_back(position)
        return report

    async def _load(self, agent: Any) -> None:
        (kept,) = await asyncio.to_thread(self._items.items, 1) or [None]
        if kept is not None:
            await agent.load_state(kept["state"])
        elif self._is_dirty:
            # Nothing is stored: an agent that began a turn here forgets it.
            await (agent.reset() if hasattr(agent, "reset") else agent.on_reset(CancellationToken()))
        self._is_dirty = False

    async def _end_calls(self) -> None:
        """Cancel the calls of a turn that was left: the agent does not."""
        left = [task for task in self._at_work if task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)

    async def position(self) -> str:
        """Return where in the conversation this code is: the end of the last completed turn."""
        if self._position is None:
            self._position = await asyncio.to_thread(self._items.position)
        return self._position

    async def asking(self) -> takeback.Turn:
        """Return the turn that answers of models belong to. After going back they are asked for again."""
        attempt = await asyncio.to_thread(attempt_of, self.thread)
        return self.thread.turn(f"turn {await self.position()} {attempt}".rstrip())

    def stop_if_told(self, error: Exception | None = None) -> None:
        """Raise what stopped the turn, in place of an error that came of it."""
        if self._stopped is not None and self._stopped is not error:
            raise self._stopped from error

    # Calls

    def note_calls(self, asked: Any, result: CreateResult) -> CreateResult:
        """Note what tells the calls of an answer from others with their ids: some providers count them from 0."""
        if isinstance(result.content, list):
            ids = (call.id for call in result.content)
            self._scopes.update(dict.fromkeys(ids, keys.intent_key("asked", keys.asked(asked))))
        return result

    async def list_tools(self) -> list[Any]:
        """Return the schemas of the tools."""
        return list(await (self._other.list_tools() if self._other else super().list_tools()))

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Make a tool call, unless it was made already."""
        stream = self.call_tool_stream(name, arguments, cancellation_token, call_id)
        async with aclosing(stream) as events:
            found = [event async for event in events]
        return found[-1]

    async def call_tool_stream(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> AsyncGenerator[Any, None]:
        """Do what `call_tool` does, and yield what the tool streams before its result."""
        task = asyncio.current_task()
        assert task is not None
        self._at_work.add(task)
        try:
            made = self._made(name, dict(arguments or {}), cancellation_token or CancellationToken(), call_id)
            async with aclosing(made) as events:
                async for event in events:
                    yield event
        except Exception as error:  # noqa: BLE001  raised where it can be: see the top of this file
            yield self._stop(name, error)
        except asyncio.CancelledError as error:
            if task.cancelling():
                raise
            yield self._stop(name, error)  # by its token, which the agent does not hear
        finally:
            self._at_work.discard(task)

    def _stop(self, name: str, error: BaseException) -> ToolResult:
        self._stopped = self._stopped or error
        return _error(name, str(error) or "the call was cancelled")

    async def _made(
        self, name: str, args: dict[str, Any], token: CancellationToken, call_id: str | None
    ) -> AsyncGenerator[Any, None]:
        tool = next((one for one in self._tools if one.name == self._original(name)), None)
        position = await self.position()
        try:
            with self.thread.turn(f"turn {position}").here():
                begun = await self._threads.abegin(
                    self.thread,
                    name,
                    args,
                    call_id=call_id or "",
                    scope=f"{position} {self._scopes.get(call_id or '', '')}".strip(),
                    ref=position,
                    declared=takeback.declared(tool) if tool is not None else None,
                )
        except UsageError as error:
            # The model gave arguments that cannot be recorded, and nothing was called.
            yield _error(name, str(error))
            return
        if isinstance(begun, Told):
            yield self._told(begun, name, tool)
            return
        async with begun:
            result = None
            async with aclosing(self._run(name, args, token, call_id)) as events:
                async for result in events:
                    if not isinstance(result, ToolResult):
                        yield result
            assert isinstance(result, ToolResult), f"{name} ended without a result"
            if result.is_error:
                failure = Failure("ToolResult", result.to_text("an image") or "the tool failed")
                await anote_failure(self.thread, begun, failure)
                await begun.aend(error=failure.text[:500])
            else:
                keep(begun, result.model_dump(mode="json"))
        yield result

    async def _run(
        self, name: str, args: dict[str, Any], token: CancellationToken, call_id: str | None
    ) -> AsyncGenerator[Any, None]:
        """Run a tool, as the workbench would that has it."""
        if self._other is not None:
            yield await self._other.call_tool(name, args, token, call_id)
            return
        tools = [_in_context(tool) for tool in self._tools if tool.name == self._original(name)]
        # The framework finds a tool with an overridden name by that name only here.
        stream = StaticStreamWorkbench(tools).call_tool_stream(self._original(name), args, token, call_id)
        async with aclosing(stream) as events:
            async for event in events:
                yield event.model_copy(update={"name": name}) if isinstance(event, ToolResult) else event

    def _original(self, name: str) -> str:
        return str(self._override_name_to_original.get(name, name))

    def _told(self, told: Told, name: str, tool: BaseTool[Any, Any] | None) -> ToolResult:
        """Return what the agent gets in place of a call that must not be made now."""
        if told.ask is not None:
            return self._stop(name, ApprovalPending(told.ask))
        if not told.is_done:
            return _error(name, told.why)
        if not told.found:
            kept: ToolResult = ToolResult.model_validate(told.value)
            return kept
        text = tool.return_value_as_string(told.value) if tool is not None else str(told.value)
        return ToolResult(name=name, result=[TextResultContent(content=text)])

    # What else a workbench does

    async def start(self) -> None:
        await (self._other.start() if self._other else super().start())

    async def stop(self) -> None:
        await (self._other.stop() if self._other else super().stop())

    async def reset(self) -> None:
        await (self._other.reset() if self._other else super().reset())

    async def save_state(self) -> Mapping[str, Any]:
        state: Mapping[str, Any] = await (self._other.save_state() if self._other else super().save_state())
        return state

    async def load_state(self, state: Mapping[str, Any]) -> None:
        await (self._other.load_state(state) if self._other else super().load_state(state))

    def _to_config(self) -> Any:
        raise UsageError(
            "a TakebackWorkbench cannot be dumped: loaded again it would record nothing",
            hint="dump the workbench inside, and wrap it where it is loaded",
        )


class TakebackModelClient(ChatCompletionClient):
    """A model client that asks its model only what has no recorded answer in this turn.

    A resumed turn then gets the calls with the ids under which they are recorded. A record is a list: the texts of a
    stream, and the result at its end.
    """

    component_type = "model"

    def __init__(self, client: ChatCompletionClient, workbench: TakebackWorkbench) -> None:
        self._client = client
        self._workbench = workbench

    async def create(self, messages: Sequence[LLMMessage], **options: Any) -> CreateResult:
        """Return the recorded answer to exactly this, or the model's."""
        self._workbench.stop_if_told()

        async def make() -> list[Any]:
            return [_piece(await self._client.create(messages, **options))]

        thread, asked = self._workbench.thread, _asked(messages, options)
        with (await self._workbench.asking()).here():
            kept = await thread.aanswer(asked, make)
        return self._workbench.note_calls(asked, _unpacked(kept[-1]))

    async def create_stream(
        self, messages: Sequence[LLMMessage], **options: Any
    ) -> AsyncGenerator[str | CreateResult, None]:
        """Yield the recorded answer to exactly this, or the model's."""
        self._workbench.stop_if_told()

        async def make() -> AsyncGenerator[Any, None]:
            async with aclosing(self._client.create_stream(messages, **options)) as pieces:
                async for piece in pieces:
                    yield _piece(piece)

        thread, asked = self._workbench.thread, _asked(messages, options)
        turn = await self._workbench.asking()
        found = thread.astream(asked, make)
        while True:
            # The block cannot be around a yield: the context of a generator is that of its reader.
            with turn.here():
                piece = await anext(found, None)
            if piece is None:
                return
            unpacked = _unpacked(piece)
            yield unpacked if isinstance(unpacked, str) else self._workbench.note_calls(asked, unpacked)

    async def close(self) -> None:
        await self._client.close()

    def actual_usage(self) -> Any:
        return self._client.actual_usage()

    def total_usage(self) -> Any:
        return self._client.total_usage()

    def count_tokens(self, messages: Sequence[LLMMessage], **options: Any) -> int:
        return int(self._client.count_tokens(messages, **options))

    def remaining_tokens(self, messages: Sequence[LLMMessage], **options: Any) -> int:
        return int(self._client.remaining_tokens(messages, **options))

    @property
    def capabilities(self) -> Any:
        return self._client.capabilities

    @property
    def model_info(self) -> Any:
        return self._client.model_info


def _function_tool(function: Callable[..., Any]) -> FunctionTool:
    return FunctionTool(function, description=(function.__doc__ or "").strip())


def _in_context(tool: BaseTool[Any, Any]) -> BaseTool[Any, Any]:
    """Return a tool whose function finds `takeback.current_call()`: the framework runs it in a bare thread."""
    if not isinstance(tool, FunctionTool) or asyncio.iscoroutinefunction(tool._func):
        return tool
    made = copy.copy(tool)
    made._func = functools.partial(contextvars.copy_context().run, tool._func)
    return made


def _error(name: str, why: str) -> ToolResult:
    return ToolResult(name=name, result=[TextResultContent(content=why)], is_error=True)


def _asked(messages: Sequence[LLMMessage], options: Mapping[str, Any]) -> Any:
    """Return what a model is asked: roles, texts, calls and results, and the names of tools."""
    tools = [tool["name"] if isinstance(tool, dict) else tool.name for tool in options.get("tools", ())]
    wanted = options.get("json_output")
    output = getattr(wanted, "__name__", "") or str(wanted or "")
    return {"messages": _MESSAGES.dump_python(messages, mode="json"), "tools": tools, "output": output}


def _piece(piece: str | CreateResult) -> Any:
    return {"text": piece} if isinstance(piece, str) else {"result": piece.model_dump(mode="json")}


def _unpacked(piece: Any) -> Any:
    return piece["text"] if "text" in piece else CreateResult.model_validate(piece["result"])
