"""Agents as their hooks tell of them, event by event: each in its own shape, through the real hook program's code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from takeback.agents import hook
from takeback.agents.event import HookAnswer

AGENTS = ("claude-code", "codex", "cursor", "gemini", "opencode")
SHELLS = {
    "claude-code": "Bash",
    "codex": "Bash",
    "cursor": "Shell",
    "gemini": "run_shell_command",
    "opencode": "bash",
}
NAMES = {
    "claude-code": ("UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd"),
    "codex": ("UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd"),
    "cursor": ("beforeSubmitPrompt", "preToolUse", "postToolUse", "stop", "sessionEnd"),
    "gemini": ("BeforeAgent", "BeforeTool", "AfterTool", "AfterAgent", "SessionEnd"),
    "opencode": (
        "chat.message",
        "tool.execute.before",
        "tool.execute.after",
        "session.idle",
        "session.deleted",
    ),
}


class Agent:
    """One session of an agent in a project."""

    def __init__(self, agent: str, project: Path, session: str = "session-1", **env: str) -> None:
        self.agent, self.project, self.session, self.env = agent, project, session, env
        self.turn = ""
        self.calls = 0
        self._prompt, self._pre, self._post, self._stop, self._end = NAMES[agent]

    def tell(self, name: str, **more: Any) -> HookAnswer:
        """Any event, with what every event of this agent has."""
        place = str(self.project)
        given: dict[str, Any]
        if self.agent == "opencode":
            given = {"event": name, "directory": place, "sessionID": self.session}
        elif self.agent == "cursor":
            given = {"hook_event_name": name, "conversation_id": self.session, "workspace_roots": [place]}
            given |= {"generation_id": self.turn or "g"}
        else:
            given = {"hook_event_name": name, "session_id": self.session, "cwd": place}
            given |= {"transcript_path": f"{place}/../transcript.jsonl"}
            given |= {"claude-code": {"prompt_id": self.turn}, "codex": {"turn_id": self.turn}}.get(
                self.agent, {}
            )
        return hook.handle(self.agent, json.dumps(given | more).encode(), self.env)

    def prompt(self, text: str, id: str = "") -> HookAnswer:
        self.turn = id or text
        if self.agent == "opencode":
            return self.tell(self._prompt, text=text, messageID=self.turn)
        return self.tell(self._prompt, prompt=text)

    def pre(self, tool: str, args: dict[str, Any], call: str, **more: Any) -> HookAnswer:
        return self.tell(self._pre, **self._call(tool, args, call), **more)

    def post(self, tool: str, args: dict[str, Any], call: str, **more: Any) -> HookAnswer:
        return self.tell(self._post, **self._call(tool, args, call), **more)

    def _call(self, tool: str, args: dict[str, Any], call: str) -> dict[str, Any]:
        if self.agent == "opencode":
            return {"tool": tool, "args": args, "callID": call}
        return {"tool_name": tool, "tool_input": args, "tool_use_id": call}

    def shell(self, command: str, call: str, **more: Any) -> HookAnswer:
        """A shell is about to run this."""
        return self.pre(SHELLS[self.agent], {"command": command, **more}, call)

    def ran(self, command: str, call: str, **more: Any) -> HookAnswer:
        return self.post(SHELLS[self.agent], {"command": command, **more}, call)

    def write(self, name: str, text: str, **more: Any) -> None:
        """A whole call that writes a file."""
        self.calls += 1
        args, call = {"file_path": str(self.project / name), "content": text}, f"call-{self.calls}"
        self.pre("Write", args, call, **more)
        (self.project / name).write_text(text)
        self.post("Write", args, call, **more)

    def stop(self, **more: Any) -> HookAnswer:
        return self.tell(self._stop, **more)

    def end(self) -> HookAnswer:
        return self.tell(self._end)


def refusal(answer: HookAnswer) -> str:
    """Why a call was refused or is asked about, whatever the dialect; nothing where it was allowed."""
    if answer.code == 2:
        return answer.stderr.decode()
    said = json.loads(answer.stdout or b"{}")
    own = said.get("hookSpecificOutput", {})
    if own.get("permissionDecision") in ("deny", "ask"):
        return str(own["permissionDecisionReason"])
    if said.get("decision") in ("deny", "ask", "block"):
        return str(said["reason"])
    return str(said["user_message"]) if said.get("permission") in ("deny", "ask") else ""


def asks(answer: HookAnswer) -> bool:
    """Whether the client is told to ask its human."""
    said = json.loads(answer.stdout or b"{}")
    own = said.get("hookSpecificOutput", {})
    return "ask" in (own.get("permissionDecision"), said.get("decision"), said.get("permission"))


def context(answer: HookAnswer) -> str:
    """What the agent hears besides."""
    said = json.loads(answer.stdout or b"{}")
    own = said.get("hookSpecificOutput", {})
    found = own.get("additionalContext") or said.get("additional_context") or said.get("context") or ""
    return str(found)
