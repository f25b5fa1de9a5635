"""An agent for tests: tells what it does through the program that real ones call, and does it.

Also a program, `agent.py EVENTS`, so that it can be a process with children of its own. Each line of EVENTS is a
list of words for a command; or an event, which is told.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from takeback.daemon import control, knock
from tests.world.cli import Workspace, environment

WAIT_S = 60.0


@dataclass
class Told:
    """What a hook answered."""

    code: int
    out: bytes
    err: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.out) if self.out else {}

    @property
    def refusal(self) -> str:
        return str(self.json.get("hookSpecificOutput", {}).get("permissionDecisionReason", ""))


@dataclass
class Agent:
    """Claude Code, as far as its hooks are concerned."""

    world: Workspace
    session: str = "s1"
    more: dict[str, str] = field(default_factory=dict)
    """Further variables."""
    how: str = "daemon"
    number: int = 0

    def event(self, name: str, cwd: Path | None = None, **given: Any) -> bytes:
        body = {"hook_event_name": name, "session_id": self.session, "cwd": str(cwd or self.world.root)}
        return json.dumps(body | given).encode()

    def tell(self, data: bytes, *, cwd: Path | None = None) -> Told:
        """One event, through the program that agents call."""
        fast = [sys.executable, "-I", "-S", knock.__file__]
        slow = [sys.executable, "-m", "takeback.agents.once"]
        done = subprocess.run(
            [*(fast if self.how == "daemon" else slow), "claude-code"],
            input=data,
            env=self.environment(),
            cwd=cwd or self.world.root,
            capture_output=True,
            timeout=WAIT_S,
        )
        return Told(done.returncode, done.stdout, done.stderr)

    def environment(self) -> dict[str, str]:
        named = {"TAKEBACK_HOME": str(self.world.home), "CLAUDE_PROJECT_DIR": str(self.world.root)}
        return environment(self.world.home) | named | self.more

    def call(
        self, event: str, tool: str, *, cwd: Path | None = None, again: bool = False, **given: Any
    ) -> bytes:
        """An event about a call: a new one, or the last one `again`."""
        self.number += not again
        call = f"{self.session}-{self.number}"
        return self.event(event, cwd, tool_name=tool, tool_input=given, tool_use_id=call, tool_response={})

    def bash(self, command: str, *, tell_end: bool = True, cwd: Path | None = None) -> Told:
        """Use a tool, if that is allowed. Gives the answer to its beginning."""
        said = self.tell(self.call("PreToolUse", "Bash", cwd=cwd, command=command), cwd=cwd)
        if not said.refusal:
            subprocess.run(["sh", "-c", command], cwd=cwd or self.world.root, check=True)
            if tell_end:
                end = self.call("PostToolUse", "Bash", cwd=cwd, again=True, command=command)
                ended = self.tell(end, cwd=cwd)
                assert (ended.code, ended.out) == (0, b""), ended
        return said

    def daemon(self) -> int:
        """The process that answers; 0 for none."""
        return control.holder(self.world.home)


def main(how: str, scenes: list[tuple[str, str]]) -> None:
    """Play scenes: what a tool does, told or not. By its name this process is the agent."""
    Path("/proc/self/comm").write_text("claude")
    agent = Agent(Workspace(Path.cwd(), Path(os.environ["TAKEBACK_HOME"])), how=how)
    for kind, command in scenes:
        if kind == "bash":
            agent.bash(command)
        elif kind == "begin":
            agent.bash(command, tell_end=False)
        elif kind == "sh":
            subprocess.run(["sh", "-c", command], check=True)
        elif kind == "wait":
            Path(command or "waiting").touch()
            sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
