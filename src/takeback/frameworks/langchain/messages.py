"""Messages of LangChain as JSON values: what tools and models returned, and the digest of what a model was asked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from langchain.agents.middleware.types import ModelResponse
from langchain_core.messages import BaseMessage, ToolMessage, messages_from_dict, messages_to_dict
from langgraph.types import Command

from takeback.frameworks.calling import UNKEPT


def recorded(result: Any) -> Any:
    """Return what a tool node gets of a tool, as JSON values. Raise TypeError or ValueError if that is impossible."""
    if isinstance(result, ToolMessage):
        return {"message": _dumped([result])[0]}
    if isinstance(result, Command):
        update = result.update
        if isinstance(update, dict):
            update = {name: _values(value) for name, value in update.items()}
        return {"command": _plain({"update": update, "goto": result.goto, "graph": result.graph})}
    raise TypeError(f"a tool returned {type(result).__name__}")


def returned(kept: Any, call: dict[str, Any], *, found: bool) -> Any:
    """Return what the tool node gets again. `found` means that the call's check found the tool's own value."""
    if not found and isinstance(kept, dict):
        if "message" in kept:
            return messages_from_dict([kept["message"]])[0]
        if "command" in kept:
            command = dict(kept["command"])
            if isinstance(command["update"], dict):
                command["update"] = {name: _messages(value) for name, value in command["update"].items()}
            return Command(**command)
    text = kept if isinstance(kept, str) else json.dumps(kept)
    return ToolMessage(text, tool_call_id=call["id"], name=call["name"])


def answered(response: Any) -> Any:
    """Return a model's answer as JSON values, or UNKEPT if it is more than messages: then it is asked for again."""
    if isinstance(response, ModelResponse) and response.structured_response is None:
        try:
            return {"messages": _dumped(response.result)}
        except (TypeError, ValueError):
            pass
    return UNKEPT


def answer_of(kept: Any) -> list[BaseMessage]:
    """Return a model's answer from its record."""
    return list(messages_from_dict(kept["messages"]))


def asked(system: BaseMessage | None, messages: Sequence[BaseMessage], tools: Sequence[Any]) -> Any:
    """Return what a model is asked: roles, texts, calls and results, and the names of tools.

    Without what differs each time: ids that LangGraph gives to messages, times, and what a provider adds.
    """
    names = [tool.get("name") if isinstance(tool, dict) else getattr(tool, "name", "") for tool in tools]
    return {"messages": list(map(_asked, [*([system] if system else []), *messages])), "tools": names}


def _asked(message: BaseMessage) -> Any:
    calls = [
        {"name": call["name"], "args": call["args"], "id": call["id"]}
        for call in getattr(message, "tool_calls", ())
    ]
    told = {"role": message.type, "content": message.content, "tool_calls": calls}
    return told | {"tool_call_id": getattr(message, "tool_call_id", "")}


def _dumped(messages: Sequence[BaseMessage]) -> Any:
    return _plain(messages_to_dict(messages))


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, allow_nan=False))


def _values(value: Any) -> Any:
    if isinstance(value, list) and value and all(isinstance(one, BaseMessage) for one in value):
        return {"messages": _dumped(value)}
    return {"value": _plain(value)}


def _messages(value: Any) -> Any:
    return messages_from_dict(value["messages"]) if "messages" in value else value["value"]
