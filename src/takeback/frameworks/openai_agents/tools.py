"""The tools of an agent, with each of their calls an action of the conversation."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import json
import shlex
from collections.abc import Awaitable, Callable
from types import CellType, FunctionType
from typing import Any, NamedTuple

from agents import (
    ApplyPatchTool,
    CustomTool,
    FunctionTool,
    LocalShellTool,
    RunContextWrapper,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellResult,
    ShellTool,
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
)
from agents.editor import ApplyPatchResult
from agents.tool import _FailureHandlingFunctionToolInvoker as Invoker
from agents.tool_context import ToolContext

import takeback
from takeback.errors import UsageError
from takeback.frameworks.calling import FailedBefore, Told
from takeback.frameworks.openai_agents.conversation import Conversation, WantedCall

_OUTPUTS = {kind.__name__: kind for kind in (ToolOutputText, ToolOutputImage, ToolOutputFileContent)}
_SYNC = "__agents_sync_function_tool__"
"""The mark of a function that the framework runs in a thread."""


class _Unrecorded(NamedTuple):
    """An error of Takeback itself. It stops the run: told to the model, the call might be made a second time."""

    error: Exception


def protected_tool(conversation: Conversation, tool: Any, protect: Callable[[Any], Any]) -> Any:
    """Return a tool whose calls are actions. One that runs on the servers of its provider is returned as it is."""
    if isinstance(tool, FunctionTool):
        if tool._is_agent_tool:
            return _agent_tool(conversation, tool, protect)
        return _function_tool(conversation, tool)
    if isinstance(tool, ShellTool) and tool.executor is not None:
        return _shell(conversation, tool)
    if isinstance(tool, LocalShellTool):
        return dataclasses.replace(tool, executor=_local_shell(conversation, tool))
    if isinstance(tool, ApplyPatchTool):
        return _apply_patch(conversation, tool)
    if isinstance(tool, CustomTool):
        return _custom(conversation, tool)
    return tool


# Functions


def _function_tool(conversation: Conversation, tool: FunctionTool) -> FunctionTool:
    declared = takeback.declared(tool)

    def wanted(context: RunContextWrapper[Any], args: dict[str, Any], call_id: str) -> WantedCall:
        answer = context.is_tool_approved(tool.qualified_name, call_id)
        return WantedCall(tool.name, args, call_id, declared, answer=answer)

    def around(invoke: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @functools.wraps(invoke)
        async def make(context: ToolContext[Any], given: str) -> Any:
            args = _arguments(given)
            if args is None:
                return await invoke(context, given)  # which says what is wrong with them
            failed: list[Exception] = []

            async def call() -> Any:
                try:
                    return await invoke(context, given)
                except Exception as error:
                    failed.append(error)
                    raise

            try:
                made = await conversation.make(wanted(context, args, context.tool_call_id), call, _recorded)
            except Exception as error:
                if error in failed or isinstance(error, FailedBefore):
                    raise
                return _Unrecorded(error)
            return _returned(made) if isinstance(made, Told) else made

        return make

    async def needs_approval(context: RunContextWrapper[Any], args: dict[str, Any], call_id: str) -> bool:
        if await _asked_by(tool, context, args, call_id):
            return True
        return await conversation.needs_approval(wanted(context, args, call_id))

    invoke = _invoked(tool, around)
    return _copied(tool, on_invoke_tool=invoke, needs_approval=needs_approval)


def _invoked(
    tool: FunctionTool, around: Callable[[Callable[..., Awaitable[Any]]], Callable[..., Awaitable[Any]]]
) -> Callable[..., Awaitable[Any]]:
    """Return what invokes a tool, with `around` inside of the handling of errors.

    The framework turns errors into text there, so that outside of it a tool that failed looks like any other.
    """
    original = tool.on_invoke_tool
    run = around(original._invoke_tool_impl if isinstance(original, Invoker) else original)
    if isinstance(original, Invoker):
        run = _copied(tool, on_invoke_tool=Invoker(run, original._on_handled_error)).on_invoke_tool

    # The framework lets a human approve each call that changes in its validation, be it by a default, if it finds
    # its own kind of invoker with a function that decides on approvals. Every protected tool has such a function.
    async def invoke(context: ToolContext[Any], given: str) -> Any:
        if context.run_config is not None and context.run_config.model is not None:
            raise UsageError(
                f"RunConfig(model=…) replaces the model whose answers are recorded; {tool.name} was not called",
                hint="set the model on the agent, before it is protected",
            )
        result = await run(context, given)
        if isinstance(result, _Unrecorded):
            raise result.error
        return result

    if hasattr(original, _SYNC):
        setattr(invoke, _SYNC, getattr(original, _SYNC))
    return invoke


async def _asked_by(
    tool: FunctionTool, context: RunContextWrapper[Any], args: dict[str, Any], call_id: str
) -> bool:
    """Return whether the tool itself says that a call needs approval, as the framework finds it out."""
    if not callable(tool.needs_approval):
        return bool(tool.needs_approval)
    if isinstance(tool.on_invoke_tool, Invoker):
        prepared = tool.on_invoke_tool.prepare_arguments(json.dumps(args), tool.name)
        if prepared is not None and not prepared.unchanged:
            return True
    return bool(await _awaited(tool.needs_approval(context, args, call_id)))


def _copied(tool: FunctionTool, **changed: Any) -> FunctionTool:
    """Return a copy, of the same class and with what the framework noted on it."""
    made = copy.copy(tool)
    for name, value in changed.items():
        setattr(made, name, value)
    bind = getattr(made.on_invoke_tool, "__agents_bind_function_tool__", None)
    if bind:
        made.on_invoke_tool = bind(made)
    return made


def _agent_tool(
    conversation: Conversation, tool: FunctionTool, protect: Callable[[Any], Any]
) -> FunctionTool:
    """Return the tool of an agent that runs the protected agent. It is not an action itself: its calls are."""
    original = tool.on_invoke_tool
    impl = original._invoke_tool_impl if isinstance(original, Invoker) else None
    names = getattr(getattr(impl, "__code__", None), "co_freevars", ())
    if not isinstance(impl, FunctionType) or "self" not in names or not isinstance(original, Invoker):
        raise UsageError(
            f"the agent inside of the tool {tool.name} cannot be protected; nothing was protected",
            hint="protect the agent first, and make a tool of it with as_tool() then",
        )
    agent = protect(tool._agent_instance)
    # The framework gives no other way to the agent that the tool runs: it is a variable of the function.
    cells = zip(names, impl.__closure__ or (), strict=True)
    closure = tuple(CellType(agent) if name == "self" else cell for name, cell in cells)
    run = FunctionType(impl.__code__, impl.__globals__, impl.__name__, impl.__defaults__, closure)
    run.__kwdefaults__ = impl.__kwdefaults__

    @functools.wraps(impl)
    async def inside(context: ToolContext[Any], given: str) -> Any:
        with conversation.inside(context.tool_call_id):
            return await run(context, given)

    made = _copied(tool, on_invoke_tool=Invoker(inside, original._on_handled_error))
    made._agent_instance = agent
    return made


def _arguments(given: str) -> dict[str, Any] | None:
    try:
        found = json.loads(given) if given.strip() else {}
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _recorded(result: Any) -> Any:
    """Return what a function returned as JSON values. Of other objects the model only sees their text."""
    many = result if isinstance(result, list) else [result]
    if many and all(isinstance(one, tuple(_OUTPUTS.values())) for one in many):
        outputs = [{"kind": type(one).__name__, "value": one.model_dump(mode="json")} for one in many]
        return {"outputs": outputs, "is_list": isinstance(result, list)}
    try:
        return {"value": json.loads(json.dumps(result, allow_nan=False))}
    except (TypeError, ValueError):
        return {"value": str(result)}


def _returned(told: Told) -> Any:
    """Return what a function returned, from its record; or why it was not called."""
    if not told.is_done:
        return told.why
    if told.found:
        return told.value
    if "outputs" not in told.value:
        return told.value["value"]
    outputs = [_OUTPUTS[one["kind"]](**one["value"]) for one in told.value["outputs"]]
    return outputs if told.value["is_list"] else outputs[0]


# Commands


def _shell(conversation: Conversation, tool: ShellTool) -> ShellTool:
    executor = tool.executor
    assert executor is not None
    declared = takeback.declared(executor)

    def wanted(context: RunContextWrapper[Any], action: Any, call_id: str) -> WantedCall:
        args = {"command": "\n".join(action.commands)}
        answer = context.is_tool_approved(tool.name, call_id)
        return WantedCall(tool.name, args, call_id, declared, "restorable", answer)

    async def execute(request: Any) -> Any:
        made = await conversation.make(
            wanted(request.ctx_wrapper, request.data.action, request.data.call_id),
            lambda: _awaited(executor(request)),
            lambda result: dataclasses.asdict(result) if isinstance(result, ShellResult) else str(result),
        )
        if not isinstance(made, Told):
            return made
        return _shell_result(made.value) if isinstance(made.value, dict) else made.why or made.value

    async def needs_approval(context: RunContextWrapper[Any], action: Any, call_id: str) -> bool:
        if await _says_so(tool.needs_approval, context, action, call_id):
            return True
        return await conversation.needs_approval(wanted(context, action, call_id))

    return dataclasses.replace(tool, executor=execute, needs_approval=needs_approval)


def _shell_result(kept: dict[str, Any]) -> ShellResult:
    outputs = [
        ShellCommandOutput(**one | {"outcome": ShellCallOutcome(**one["outcome"])}) for one in kept["output"]
    ]
    return ShellResult(**kept | {"output": outputs})


def _local_shell(conversation: Conversation, tool: LocalShellTool) -> Callable[[Any], Awaitable[str]]:
    """Return what executes a command. This kind of tool cannot wait for approval: the model is told to ask again."""
    declared = takeback.declared(tool.executor)

    async def execute(request: Any) -> str:
        action = request.data.action
        args = {"command": shlex.join(action.command), "cwd": action.working_directory or ""}
        wanted = WantedCall(tool.name, args, request.data.call_id, declared, "restorable")
        made = await conversation.make(wanted, lambda: _awaited(tool.executor(request)), str)
        return str(made.why or made.value) if isinstance(made, Told) else str(made)

    return execute


# Patches and custom tools


class _Editor:
    """An editor whose operations are actions. They have no ids: one is found by what it does in its turn."""

    def __init__(self, conversation: Conversation, tool: ApplyPatchTool) -> None:
        self._conversation = conversation
        self._tool = tool

    def wanted(self, operation: Any, call_id: str, *, answer: bool | None = None) -> WantedCall:
        declared = takeback.declared(getattr(self._tool.editor, operation.type))
        names = ("type", "path", "diff", "move_to")
        args = {name: value for name in names if (value := getattr(operation, name)) is not None}
        return WantedCall(self._tool.name, args, call_id, declared, "restorable", answer)

    async def create_file(self, operation: Any) -> Any:
        return await self._edit(operation)

    async def update_file(self, operation: Any) -> Any:
        return await self._edit(operation)

    async def delete_file(self, operation: Any) -> Any:
        return await self._edit(operation)

    def _answer(self, context: RunContextWrapper[Any]) -> bool | None:
        """Return what a human answered. The framework tells the editor no id, only which calls are at work."""
        known = context._tool_invocations.items()
        ids = [id for id, record in known if record.executed and not record.completed]
        answers = [context.is_tool_approved(self._tool.name, id) for id in ids]
        return True if answers and all(answers) else None

    async def _edit(self, operation: Any) -> Any:
        edit = getattr(self._tool.editor, operation.type)
        made = await self._conversation.make(
            self.wanted(operation, "", answer=self._answer(operation.ctx_wrapper)),
            lambda: _awaited(edit(operation)),
            lambda result: dataclasses.asdict(result) if isinstance(result, ApplyPatchResult) else result,
        )
        if not isinstance(made, Told):
            return made
        if not made.is_done:
            return ApplyPatchResult(status="failed", output=made.why)
        return ApplyPatchResult(**made.value) if isinstance(made.value, dict) else made.value


def _apply_patch(conversation: Conversation, tool: ApplyPatchTool) -> ApplyPatchTool:
    editor = _Editor(conversation, tool)

    async def needs_approval(context: RunContextWrapper[Any], operation: Any, call_id: str) -> bool:
        if await _says_so(tool.needs_approval, context, operation, call_id):
            return True
        return await conversation.needs_approval(editor.wanted(operation, call_id))

    return dataclasses.replace(tool, editor=editor, needs_approval=needs_approval)


def _custom(conversation: Conversation, tool: CustomTool) -> CustomTool:
    declared = takeback.declared(tool.on_invoke_tool)

    def wanted(context: RunContextWrapper[Any], given: str, call_id: str) -> WantedCall:
        answer = context.is_tool_approved(tool.name, call_id)
        return WantedCall(tool.name, {"input": given}, call_id, declared, answer=answer)

    async def invoke(context: ToolContext[Any], given: str) -> Any:
        made = await conversation.make(
            wanted(context, given, context.tool_call_id),
            lambda: _awaited(tool.on_invoke_tool(context, given)),
            _recorded,
        )
        return _returned(made) if isinstance(made, Told) else made

    async def needs_approval(context: RunContextWrapper[Any], given: str, call_id: str) -> bool:
        if await _says_so(tool.needs_approval, context, given, call_id):
            return True
        return await conversation.needs_approval(wanted(context, given, call_id))

    return dataclasses.replace(tool, on_invoke_tool=invoke, needs_approval=needs_approval)


async def _says_so(setting: Any, *given: Any) -> bool:
    return bool(await _awaited(setting(*given))) if callable(setting) else bool(setting)


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
