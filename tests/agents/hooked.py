"""An agent that is only its hooks: it tells its events as the real client does, and does its work by itself.

The events have the shape of recorded ones. So many sessions can be at work at once, on a small machine.
"""

from __future__ import annotations

import json
import subprocess
from functools import cache
from typing import Any

from . import recording
from .protection import Protected

Payload = dict[str, Any]

AGENT_EVENTS = {"claude-code": "claude_code", "codex": "codex", "ruflo": "claude_code"}


@cache
def shape(agent: str, event: str, tool: str = "") -> str:
    """A recorded event of this kind."""
    for entry in recording.recorded(AGENT_EVENTS[agent]):
        given = entry["stdin"]
        if given["hook_event_name"] == event and given.get("tool_name", "") == tool:
            return json.dumps(given)
    raise AssertionError(f"{agent} never told {event} {tool}")


class Hooked:
    """One session. It tells, does, and tells again."""

    def __init__(self, project: Protected, session: str, agent: str = "") -> None:
        self._project = project
        self._session = session
        self._agent = agent or project.agent
        self._calls = 0
        self.answers: list[str] = []
        """What the hooks said, other than nothing."""

    def tell(self, event: str, tool: str = "", **fields: Any) -> Payload:
        """One event. The answer is given; a hook that fails is no answer."""
        given: Payload = json.loads(shape(self._agent, event, tool))
        given |= {"session_id": self._session, "cwd": str(self._project.project)} | fields
        named = {"CLAUDE_PROJECT_DIR": str(self._project.project), "CLAUDE_CODE_SESSION_ID": self._session}
        done = self._project.tell(event, given, named if self._agent == "claude-code" else {})
        assert (done.returncode, done.stderr) == (0, ""), (event, fields, done)
        if done.stdout.strip():
            self.answers.append(done.stdout)
        answer: Payload = json.loads(done.stdout or "{}")
        return answer

    def begin(self) -> None:
        self.tell("SessionStart")

    def prompt(self, number: int) -> None:
        self.tell("UserPromptSubmit", **self._prompt(number), prompt=f"prompt {number}")

    def shell(self, command: str, *, prompt: int = 1) -> bool:
        """Run a command as a call of its shell tool; whether it was allowed."""
        self._calls += 1
        call = {"tool_use_id": f"{self._session}-{self._calls}", "tool_input": {"command": command}}
        said = self.tell("PreToolUse", "Bash", **call, **self._prompt(prompt))
        if said.get("hookSpecificOutput", {}).get("permissionDecision") in ("deny", "ask"):
            return False
        subprocess.run(["sh", "-c", command], cwd=self._project.project, check=True)
        self.tell("PostToolUse", "Bash", **call, **self._prompt(prompt))
        return True

    def end(self) -> None:
        self.tell("Stop", **self._prompt(1))
        self.tell("SessionEnd")

    def _prompt(self, number: int) -> Payload:
        name = {"claude-code": "prompt_id", "codex": "turn_id", "ruflo": "prompt_id"}[self._agent]
        return {name: f"{self._session}-prompt-{number}"}
