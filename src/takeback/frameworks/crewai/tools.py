"""Tools of CrewAI whose calls are actions of a thread.

CrewAI's hooks do not serve for this: it ignores the errors of a hook, and runs the tool.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

from crewai.hooks.dispatch import HookAborted
from crewai.tools import BaseTool
from crewai.tools.tool_failure import ToolFailure
from pydantic import BaseModel, PrivateAttr

import takeback
from takeback.errors import RefusedError, TakebackError, UsageError
from takeback.frameworks.calling import (
    Calling,
    FailedBefore,
    Failure,
    HumanAnswer,
    Told,
    amaking,
    anote_failure,
    keep,
    making,
    note_failure,
)

Approving = Callable[[takeback.Ask], bool | HumanAnswer | None]
"""Returns what a human answered to a request; None if nobody has."""

CALLS = Calling("crewai")
_REPORTED = ToolFailure.__name__
"""The kind of a failure that a tool returned."""

stopping: WeakKeyDictionary[takeback.Thread, HookAborted] = WeakKeyDictionary()
"""What a crew of the thread has to stop with. CrewAI makes a text of whatever a tool raises, so the crew is stopped
when it asks its model next. It catches other errors of a model than HookAborted, and asks once more."""


class WaitingForApproval(HookAborted):
    """Stops a crew: a call needs a human's approval. Kick it off again in the same turn when there is an answer."""

    def __init__(self, ask: takeback.Ask) -> None:
        super().__init__(str(ask), source="takeback")
        self.ask = ask


class StoppedByTakeback(HookAborted):
    """Stops a crew: Takeback could not begin or record a call, for the reason in `error`."""

    def __init__(self, error: TakebackError) -> None:
        super().__init__(str(error), source="takeback")
        self.error = error


class _Stops:
    """A block after which the crew of a thread stops if Takeback itself failed in it, and not one of its tools."""

    def __init__(self, thread: takeback.Thread) -> None:
        self._thread = thread
        self._of_tool: TakebackError | None = None

    def __enter__(self) -> _Stops:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, TakebackError) and error is not self._of_tool:
            stopping[self._thread] = StoppedByTakeback(error)

    @contextmanager
    def but_not_for_this(self) -> Iterator[None]:
        """Enter a block in which a tool runs, which may use Takeback for itself."""
        try:
            yield
        except TakebackError as error:
            self._of_tool = error
            raise


class ProtectedTool(BaseTool):
    """A tool whose calls are actions of a thread. Without its thread it refuses to run."""

    _inner: BaseTool | None = PrivateAttr(default=None)
    _thread: takeback.Thread | None = PrivateAttr(default=None)
    _approve: Approving | None = PrivateAttr(default=None)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        inner, thread = self._parts()
        if inspect.iscoroutinefunction(getattr(inner, "func", inner._run)):
            return self._arun(*args, **kwargs)  # CrewAI runs what it returns to its end
        with _Stops(thread):
            begun = CALLS.begin(thread, **self._beginning(args, kwargs), answering=self._answering())
        if isinstance(begun, Told):
            return self._told(begun)
        with _Stops(thread) as stops, making(thread, begun):
            with stops.but_not_for_this():
                result = inner._run(*args, **kwargs)
            if isinstance(result, ToolFailure):
                note_failure(thread, begun, Failure(_REPORTED, result.model_dump_json()))
                begun.end(error=result.message)
            else:
                keep(begun, _recorded(inner, result))
        return result

    async def _arun(self, *args: Any, **kwargs: Any) -> Any:
        inner, thread = self._parts()
        with _Stops(thread):
            begun = await CALLS.abegin(thread, **self._beginning(args, kwargs), answering=self._answering())
        if isinstance(begun, Told):
            return self._told(begun)
        with _Stops(thread) as stops:
            async with amaking(thread, begun):
                with stops.but_not_for_this():
                    result = await inner._arun(*args, **kwargs)
                if isinstance(result, ToolFailure):
                    await anote_failure(thread, begun, Failure(_REPORTED, result.model_dump_json()))
                    await begun.aend(error=result.message)
                else:
                    keep(begun, _recorded(inner, result))
        return result

    def format_output_for_agent(self, raw_result: Any) -> str:
        """Return what the agent gets of a result: what the protected tool makes of it."""
        return str(self._parts()[0].format_output_for_agent(raw_result))

    def _parts(self) -> tuple[BaseTool, takeback.Thread]:
        if self._inner is None or self._thread is None:
            raise UsageError(
                f"{self.name} was restored without its thread, so it was not called",
                hint="build the crew again with protect_tools, and kick it off in the same turn",
            )
        if self._thread.current_turn is None:
            raise UsageError(
                f"{self.name} was called outside of a turn of its thread, so nothing was done",
                hint='with thread.turn("message-1"): crew.kickoff()',
            )
        return self._inner, self._thread

    def _beginning(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        given = dict(zip(self.args_schema.model_fields, args, strict=False)) | kwargs
        return {"name": self.name, "args": given, "declared": takeback.declared(self._inner)}

    def _answering(self) -> Callable[[takeback.Ask], HumanAnswer | None]:
        def answer(ask: takeback.Ask) -> HumanAnswer | None:
            said = self._approve(ask) if self._approve else None
            return HumanAnswer(said) if isinstance(said, bool) else said

        return answer

    def _told(self, told: Told) -> Any:
        """Return the recorded result, or raise what the model is told: CrewAI may reuse what is returned."""
        inner, thread = self._parts()
        if told.ask:
            stopping[thread] = WaitingForApproval(told.ask)
        if told.failure and told.failure.kind == _REPORTED:
            return ToolFailure.model_validate_json(told.failure.text)
        if told.failure:
            raise FailedBefore(told.failure.text)
        if not told.is_done:
            raise RefusedError(told.why)
        return told.value if told.found else _returned(inner, told.value)


def protect_tools(
    tools: Iterable[BaseTool], thread: takeback.Thread, *, approve: Approving | None = None
) -> list[BaseTool]:
    """Return tools that do the same, and whose calls are actions of the thread: made once, and taken back with it.

    The effect of a tool is what `@takeback.action` declares of its function, and unknown without a declaration.
    `approve` is asked about a call that needs approval. If it returns None, or is missing, the crew stops with
    WaitingForApproval.
    """
    return [_protected(tool, thread, approve) for tool in tools]


def _protected(tool: BaseTool, thread: takeback.Thread, approve: Approving | None) -> BaseTool:
    if not isinstance(tool, BaseTool):
        raise UsageError(
            f"{tool!r} is not a tool of CrewAI, so it was not protected",
            hint="put @tool of crewai.tools over the function",
        )
    inner = tool._inner or tool if isinstance(tool, ProtectedTool) else tool
    kept = {name: getattr(inner, name) for name in BaseTool.model_fields}
    made = ProtectedTool(**kept)
    made._inner, made._thread, made._approve = inner, thread, approve
    return made


def _recorded(tool: BaseTool, result: Any) -> dict[str, Any]:
    """Return a result as JSON values: its text alone, if the agent would see another text of the JSON values."""
    text = tool.format_output_for_agent(result)
    try:
        value = result.model_dump(mode="json") if isinstance(result, BaseModel) else result
        value = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        return {"text": text}
    return (
        {"value": value}
        if tool.format_output_for_agent(_returned(tool, {"value": value})) == text
        else {"text": text}
    )


def _returned(tool: BaseTool, kept: dict[str, Any]) -> Any:
    """Return a result from its record."""
    if "text" in kept:
        return kept["text"]
    if tool.result_schema and isinstance(kept["value"], dict):
        return tool.result_schema.model_validate(kept["value"])
    return kept["value"]
