"""Options for the SDK: each call of the agent is an action of a thread, and transcripts go with the world."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import anyio
from anyio import to_thread
from claude_agent_sdk import HookMatcher, PermissionResultAllow, PermissionResultDeny

import takeback
from takeback.errors import TakebackError, UsageError
from takeback.frameworks.calling import HumanAnswer
from takeback.frameworks.claude_agent_sdk import orphans
from takeback.frameworks.claude_agent_sdk.sessions import AnnouncedCall, ClaudeSessions, text_of
from takeback.frameworks.claude_agent_sdk.tools import protected
from takeback.frameworks.claude_agent_sdk.transcripts import TakebackSessionStore
from takeback.workspace.workspace import Workspace

EDITING = {
    "Write": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
}
"""The tools of the agent that write a file, and the argument that names it."""
QUIET = (
    *("Agent", "Task", "Read", "Grep", "Glob", "LS", "NotebookRead", "WebFetch", "WebSearch"),
    *("BashOutput", "TaskOutput", "TodoWrite", "ToolSearch", "AskUserQuestion"),
)
"""The tools that only read, or whose effects are those of the calls of a subagent."""
VOLATILE = ("description", "timeout")
"""Arguments of a command that do not change what it does."""
OWN = re.compile(
    r"\s*takeback +(?:undo|redo|restore|save|status|log|show|diff|verify|du|approvals)(?: +[\w./=,:@%+-]+)*\s*"
)
"""A command that runs Takeback itself, which records what it does."""
PROMPT_S_MAX = 5.0
"""How long the first call of a turn waits until the transcript has its prompt: a session without it cannot go on."""
STORED_S_MAX = 5.0
"""How long the end of a turn waits until the transcript has the results of its calls."""
_POLL_S = 0.02


def options(
    workspace: Workspace | TakebackSessionStore | str | os.PathLike[str],
    *,
    hooks: Mapping[str, list[Any]] | None = None,
    mcp_servers: Any = None,
    can_use_tool: Callable[..., Any] | None = None,
    env: Mapping[str, str] | None = None,
    **others: Any,
) -> dict[str, Any]:
    """Return the arguments of ClaudeAgentOptions with which the agent's calls can be taken back, and happen once.

        ClaudeAgentOptions(**options("./project", mcp_servers={"shop": [book, pay]}, resume=session_id))

    All options of the SDK may be given; hooks are called besides Takeback's own. In `mcp_servers` a list of tools
    stands for a server in this process, so that `@takeback.action` on their functions is found. A call that needs
    approval is passed to `can_use_tool`. Without one the run stops with `deferred_tool_use`: approve it, and resume.
    """
    if "session_store" in others:
        raise UsageError(
            "the transcripts are in Takeback's own session store, so session_store cannot be given; "
            "nothing was started",
            hint="leave session_store out; `TakebackSessionStore(…)` in place of the workspace shares one",
        )
    store = workspace if isinstance(workspace, TakebackSessionStore) else TakebackSessionStore(workspace)
    servers, tools = protected(mcp_servers, store.sessions)
    mine = AgentHooks(store.sessions, tools, can_use_tool)
    made: dict[str, Any] = {"cwd": store.sessions.root, "session_store_flush": "eager"} | others
    made |= {
        "hooks": mine.added_to(hooks or {}),
        "session_store": store,
        "env": dict(env or {}) | orphans.marking(store.sessions.root),
    }
    if servers is not None:
        made["mcp_servers"] = servers
    if can_use_tool is not None:
        made["can_use_tool"] = mine.permit
    return made


class AgentHooks:
    """What the SDK calls around each call of the agent."""

    def __init__(
        self, sessions: ClaudeSessions, tools: Mapping[str, Any], can_use_tool: Callable[..., Any] | None
    ) -> None:
        self._sessions = sessions
        self._tools = tools
        self._can_use_tool = can_use_tool

    def added_to(self, hooks: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        """Return hooks with those of Takeback before them."""
        mine = {
            "UserPromptSubmit": HookMatcher(hooks=[self.prompted]),
            # A call that cannot be recorded must not be made.
            "PreToolUse": HookMatcher(hooks=[self.announced], on_failure="block"),
            "PostToolUse": HookMatcher(hooks=[self.ended]),
            "PostToolUseFailure": HookMatcher(hooks=[self.failed]),
            "Stop": HookMatcher(hooks=[self.stopped]),
        }
        events = dict.fromkeys((*mine, *hooks))
        return {event: [*([mine[event]] if event in mine else []), *hooks.get(event, ())] for event in events}

    async def prompted(self, given: Any, _id: Any, _context: Any) -> dict[str, Any]:
        """Begin a turn, and tell the model which results it never got."""
        session = self._sessions.of(given["session_id"])
        ref, title = str(given.get("prompt_id") or ""), str(given.get("prompt") or "")
        news = await to_thread.run_sync(partial(session.turn, ref, title))
        return _said("UserPromptSubmit", additionalContext=news) if news else {}

    async def announced(self, given: Any, id: Any, _context: Any) -> dict[str, Any]:
        """Begin a call, or say why it must not be made."""
        call = self._call(given, str(given.get("tool_use_id") or id or ""))
        if call is None:
            return {}
        session = self._sessions.of(given["session_id"])
        deadline = time.monotonic() + PROMPT_S_MAX
        while session.waits_for_prompt and time.monotonic() < deadline:
            await anyio.sleep(_POLL_S)
        try:
            begun = await to_thread.run_sync(partial(session.begin, call))
        except TakebackError as error:
            return _refused(f"{call.name} was not called: {error}")
        if isinstance(begun, takeback.Action):
            return {"systemMessage": begun.warning} if begun.warning else {}
        if begun.is_done:
            if _is_own(given):
                return {}  # its server returns the recorded result
            return _refused(
                f"{call.name} was already made, before the process was interrupted. Do not make it again. "
                f"Its result: {text_of(begun.value)}"
            )
        if begun.ask is None:
            return _refused(begun.why)
        if self._can_use_tool is not None:
            return _decided("ask", f"Takeback: {begun.ask.reason}")
        # A subagent cannot be stopped in the middle.
        return _refused(begun.why) if given.get("agent_id") else _decided("defer", begun.why)

    def _call(self, given: Any, id: str) -> AnnouncedCall | None:
        name, args = str(given["tool_name"]), dict(given.get("tool_input") or {})
        told: dict[str, Any] = {}
        if declared := self._tools.get(name):
            told["declared"] = declared
        elif name in QUIET:
            if not self._sessions.has_rules:
                return None
            told["effect"] = "none"
        elif name == "Bash":
            if OWN.fullmatch(str(args.get("command", ""))):
                return None
            told |= {"effect": "restorable", "volatile": VOLATILE}
        elif name in EDITING:
            path = os.path.join(str(given.get("cwd") or ""), str(args.get(EDITING[name], "")))
            told |= {"effect": "restorable", "paths": (path,)}
        # A tool of this process is not where the agent is.
        return AnnouncedCall(id, name, args, told, "" if _is_own(given) else str(given.get("cwd") or ""))

    async def ended(self, given: Any, id: Any, _context: Any) -> dict[str, Any]:
        """Record the result of a call."""
        response = given.get("tool_response")
        moved = isinstance(response, dict) and bool(response.get("backgroundTaskId"))
        session = self._sessions.of(given["session_id"])
        await to_thread.run_sync(
            partial(session.end, str(given.get("tool_use_id") or id), response, None, lives_on=moved)
        )
        return {}

    async def failed(self, given: Any, id: Any, _context: Any) -> dict[str, Any]:
        """Record how a call failed."""
        error: Any = str(given.get("error") or "the tool failed")
        if given.get("is_interrupt"):
            error = asyncio.CancelledError(error)
        session = self._sessions.of(given["session_id"])
        await to_thread.run_sync(partial(session.end, str(given.get("tool_use_id") or id), None, error))
        return {}

    async def stopped(self, given: Any, _id: Any, _context: Any) -> dict[str, Any]:
        """Commit the turn, once the transcript has the results of its calls."""
        session = self._sessions.of(given["session_id"])
        deadline = time.monotonic() + STORED_S_MAX
        while session.waits_for_transcript and time.monotonic() < deadline:
            await anyio.sleep(_POLL_S)
        await to_thread.run_sync(partial(session.finish, quiet=not given.get("background_tasks")))
        return {}

    async def permit(self, name: str, args: dict[str, Any], context: Any) -> Any:
        """Ask the host's own callback, and record what it said about a call."""
        assert self._can_use_tool is not None
        said = await self._can_use_tool(name, args, context)
        id = str(context.tool_use_id or "")
        session = self._sessions.with_call(id)
        if session is None:
            return said
        granted = isinstance(said, PermissionResultAllow)
        answer = HumanAnswer(granted, why="" if granted else str(getattr(said, "message", "")))
        changed = said.updated_input if granted and said.updated_input != args else None
        why = await to_thread.run_sync(partial(session.answered, id, name, answer, changed))
        return PermissionResultDeny(message=why) if granted and why else said


def _is_own(given: Any) -> bool:
    """Return whether the tool of a call runs in this process."""
    server = given.get("mcp_server")
    return isinstance(server, dict) and server.get("source") == "sdk"


def _said(event: str, **output: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, **output}}


def _decided(decision: str, reason: str) -> dict[str, Any]:
    return _said("PreToolUse", permissionDecision=decision, permissionDecisionReason=reason)


def _refused(reason: str) -> dict[str, Any]:
    return _decided("deny", reason)
