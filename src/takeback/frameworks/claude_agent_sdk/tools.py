"""Tools that run in this process: their calls get an idempotency key, and a call that was made is not made again."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from claude_agent_sdk import create_sdk_mcp_server
from mcp.types import CallToolResult

import takeback
from takeback.errors import UsageError
from takeback.frameworks.calling import Told
from takeback.frameworks.claude_agent_sdk.sessions import ClaudeSessions, text_of

CALL_ID = "claudecode/toolUseId"
"""The name under which the program tells a tool the id of its call."""


def protected(servers: Any, sessions: ClaudeSessions) -> tuple[Any, dict[str, Any]]:
    """Return the servers with those of this process protected, and the tools of the latter by their full names.

    In place of a server there may be a list of tools. Only then are the declarations of the tools known.
    """
    if not isinstance(servers, Mapping):
        return servers, {}
    found: dict[str, Any] = {}
    known: dict[str, Any] = {}
    for name, given in servers.items():
        config = given
        if isinstance(given, (list, tuple)):
            config = create_sdk_mcp_server(name, tools=list(given))
            known |= {f"mcp__{name}__{tool.name}": takeback.declared(tool) for tool in given}
        if isinstance(config, Mapping) and config.get("type") == "sdk":
            config = {**config, "instance": _protected_server(config["instance"], sessions)}
        found[name] = config
    return found, known


def _protected_server(server: Any, sessions: ClaudeSessions) -> Any:
    """Make the calls of a server actions. The server is the same object."""
    if not hasattr(server, "add_request_handler"):
        raise UsageError(
            "in-process tools need mcp 2 to be protected; nothing was started", hint="pip install 'mcp>=2'"
        )
    entry = server.get_request_handler("tools/call")
    if entry is None:
        return server
    inner = getattr(entry.handler, "takeback_inner", entry.handler)  # options may be made again for a server

    async def call(context: Any, params: Any) -> Any:
        id = str((context.meta or {}).get(CALL_ID, ""))
        session = sessions.with_call(id)
        decided = session.taken(id) if session else None
        if session is None or decided is None:
            return _failed(f"{params.name} was not announced to Takeback, so it was not called")
        if isinstance(decided, Told):
            return _recorded(decided)
        try:
            return await _made(decided, partial(inner, context, params))
        finally:
            session.left(id)

    call.takeback_inner = inner  # type: ignore[attr-defined]
    server.add_request_handler("tools/call", entry.params_type, call)
    return server


async def _made(action: takeback.Action, tool: Any) -> Any:
    async with action:
        result = await tool()
        dumped = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        if dumped.get("isError"):
            await action.aend(error=text_of(dumped)[:500] or "the tool failed")
        else:
            action.keep(dumped)
    return result


def _recorded(told: Told) -> Any:
    if not told.is_done:
        return _failed(told.why)
    if not told.found and isinstance(told.value, dict) and "content" in told.value:
        return CallToolResult.model_validate(told.value)
    return CallToolResult.model_validate({"content": [{"type": "text", "text": text_of(told.value)}]})


def _failed(why: str) -> Any:
    return CallToolResult.model_validate({"content": [{"type": "text", "text": why}], "isError": True})
