"""The events that each agent sends to its hooks when it writes a file, for a trial. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

SESSION = "takeback-doctor"


class ScriptedEvents(msgspec.Struct, frozen=True):
    """The events of one tool call, and of the end of the session."""

    begin: dict[str, Any]
    end: dict[str, Any]
    over: dict[str, Any]


def call(agent: str, root: str, number: int) -> ScriptedEvents:
    """Return the events of an agent's n-th write to a file."""
    if agent == "opencode":
        return _opencode(root, number)
    return {"codex": _codex, "cursor": _cursor, "gemini": _gemini}.get(agent, _claude_code)(root, number)


def environment(root: str) -> dict[str, str]:
    """Return the variables that agents set for a hook. All of them: this process may itself be an agent's child."""
    names = ("CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR", "CURSOR_PROJECT_DIR")
    return dict.fromkeys(names, root) | {"CLAUDE_CODE_SESSION_ID": SESSION, "GEMINI_SESSION_ID": SESSION}


def _claude_code(root: str, number: int) -> ScriptedEvents:
    given = {"session_id": SESSION, "cwd": root, "permission_mode": "default"}
    tool = {
        "tool_name": "Write",
        "tool_input": {"file_path": f"{root}/made.txt", "content": "made\n"},
        "tool_use_id": f"call-{number}",
    }
    return ScriptedEvents(
        given | tool | {"hook_event_name": "PreToolUse"},
        given | tool | {"hook_event_name": "PostToolUse", "tool_response": {}},
        given | {"hook_event_name": "SessionEnd", "reason": "other"},
    )


def _codex(root: str, number: int) -> ScriptedEvents:
    given = {"session_id": SESSION, "cwd": root, "model": "none", "permission_mode": "default"}
    patch = "*** Begin Patch\n*** Add File: made.txt\n+made\n*** End Patch"
    tool = {
        "turn_id": "turn",
        "tool_name": "apply_patch",
        "tool_input": {"command": patch},
        "tool_use_id": f"call-{number}",
    }
    return ScriptedEvents(
        given | tool | {"hook_event_name": "PreToolUse"},
        given | tool | {"hook_event_name": "PostToolUse", "tool_response": "Exit code: 0"},
        given | {"hook_event_name": "SessionEnd"},
    )


def _cursor(root: str, number: int) -> ScriptedEvents:
    given = {"conversation_id": SESSION, "generation_id": "g", "model": "none", "workspace_roots": [root]}
    tool = {
        "tool_name": "Write",
        "tool_input": {"file_path": "made.txt", "content": "made\n"},
        "tool_use_id": f"call-{number}",
        "cwd": root,
    }
    return ScriptedEvents(
        given | tool | {"hook_event_name": "preToolUse"},
        given | tool | {"hook_event_name": "postToolUse", "tool_output": "{}"},
        given | {"hook_event_name": "sessionEnd", "session_id": SESSION},
    )


def _gemini(root: str, number: int) -> ScriptedEvents:
    given = {"session_id": SESSION, "cwd": root, "timestamp": "2000-01-01T00:00:00Z"}
    # Its calls have no ids, so the arguments of each have to differ.
    tool = {
        "tool_name": "write_file",
        "tool_input": {"file_path": f"{root}/made.txt", "content": f"{number}\n"},
    }
    return ScriptedEvents(
        given | tool | {"hook_event_name": "BeforeTool"},
        given | tool | {"hook_event_name": "AfterTool", "tool_response": {"llmContent": "done"}},
        given | {"hook_event_name": "SessionEnd"},
    )


def _opencode(root: str, number: int) -> ScriptedEvents:
    given = {"sessionID": SESSION, "directory": root, "worktree": "/"}
    tool = {
        "tool": "write",
        "callID": f"call-{number}",
        "args": {"filePath": f"{root}/made.txt", "content": "made\n"},
    }
    return ScriptedEvents(
        given | tool | {"event": "tool.execute.before"},
        given | tool | {"event": "tool.execute.after"},
        given | {"event": "session.deleted"},
    )
