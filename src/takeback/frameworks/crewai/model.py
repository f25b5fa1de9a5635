"""Models of CrewAI whose answers are recorded: a resumed crew gets the same answers, with the same calls."""

from __future__ import annotations

import copy
import json
from typing import Any

from crewai.llms.base_llm import BaseLLM
from crewai.utilities.agent_utils import extract_tool_call_info, is_tool_call_list
from crewai.utilities.llm_utils import create_llm
from pydantic import BaseModel

import takeback
from takeback.errors import UsageError
from takeback.frameworks.calling import UNKEPT
from takeback.frameworks.crewai.tools import stopping


class _Recording:
    """What a protected model does differently, in front of its own class."""

    takeback_thread: takeback.Thread

    def call(self, messages: Any, *args: Any, **more: Any) -> Any:
        """Ask the model, unless its answer to exactly this is recorded."""
        thread = self._thread_now()
        made: list[Any] = []

        def make() -> Any:
            made.append(super(_Recording, self).call(messages, *args, **more))  # type: ignore[misc]
            return _recorded(made[-1])

        kept = thread.answer(_asked(messages, *args, **more), make)
        if kept != UNKEPT:
            return _answer_of(kept, more.get("response_model"))
        return made[-1] if made else super().call(messages, *args, **more)  # type: ignore[misc]

    async def acall(self, messages: Any, *args: Any, **more: Any) -> Any:
        """Do what `call` does, without blocking the event loop."""
        thread = self._thread_now()
        made: list[Any] = []

        async def make() -> Any:
            made.append(await super(_Recording, self).acall(messages, *args, **more))  # type: ignore[misc]
            return _recorded(made[-1])

        kept = await thread.aanswer(_asked(messages, *args, **more), make)
        if kept != UNKEPT:
            return _answer_of(kept, more.get("response_model"))
        return made[-1] if made else await super().acall(messages, *args, **more)  # type: ignore[misc]

    def _thread_now(self) -> takeback.Thread:
        thread = type(self).takeback_thread
        if thread.current_turn is None:
            raise UsageError(
                "the model was asked outside of a turn of its thread, so nothing was done",
                hint='with thread.turn("message-1"): crew.kickoff()',
            )
        if reason := stopping.pop(thread, None):
            raise reason
        return thread


def protect_model(model: BaseLLM | str, thread: takeback.Thread) -> BaseLLM:
    """Return a model that answers as this one does, and whose answers are recorded in the thread.

    A crew that is kicked off again in the same turn gets the recorded answers, in any process. The model given here
    stays as it is.
    """
    found = create_llm(model)
    if not isinstance(found, BaseLLM):
        raise UsageError(
            f"{model!r} is not a model of CrewAI, so it was not protected",
            hint="pass an LLM of crewai, or the name of a model",
        )
    own = type(found)
    if issubclass(own, _Recording):
        own = own.__mro__[2]
    # A subclass of its own class, since CrewAI asks for the classes and the attributes of models.
    recording: Any = type(own.__name__, (_Recording, own), {"__module__": own.__module__})
    recording.takeback_thread = thread
    protected = copy.copy(found)
    object.__setattr__(protected, "__class__", recording)
    return protected


def _asked(
    messages: Any, tools: Any = None, *_: Any, from_agent: Any = None, response_model: Any = None, **__: Any
) -> Any:
    """Return what the model is asked, without the ids of calls and what differs each time."""
    said = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
    return {
        "agent": getattr(from_agent, "role", ""),
        "messages": list(map(_said, said)),
        "tools": [tool.get("function", tool).get("name", "") for tool in tools or ()],
        "answer": getattr(response_model, "__name__", ""),
    }


def _said(message: Any) -> Any:
    calls = [call.get("function", {}) for call in message.get("tool_calls") or ()]
    content = message.get("content")
    if not isinstance(content, str | None):
        content = json.loads(json.dumps(content, default=str))
    called = [[call.get("name"), call.get("arguments")] for call in calls]
    return {"role": message.get("role"), "content": content, "calls": called, "tool": message.get("name")}


def _recorded(answer: Any) -> Any:
    """Return an answer as JSON values."""
    if isinstance(answer, str) and answer:
        return {"text": answer}
    if isinstance(answer, BaseModel):
        return {"model": answer.model_dump(mode="json")}
    if isinstance(answer, list) and is_tool_call_list(answer):
        # The parts of Gemini carry signatures, which have to come back as they are.
        if not any(type(call).__qualname__ == "Part" for call in answer):
            return {"calls": [_call(*info) for call in answer if (info := extract_tool_call_info(call))]}
    return UNKEPT


def _call(id: str, name: str, arguments: Any) -> Any:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": text}}


def _answer_of(kept: Any, response_model: type[BaseModel] | None) -> Any:
    if "model" in kept:
        return response_model.model_validate(kept["model"]) if response_model else kept["model"]
    return kept["text"] if "text" in kept else kept["calls"]
