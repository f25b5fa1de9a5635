"""Turns that are the same for every client, whatever its tools are called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from . import stories

Tool = dict[str, Any]


def shell(agent: str, command: str) -> Tool:
    """The client's own shell runs a command."""
    if agent == "codex":
        return stories.tool("exec_command", cmd=command)
    name = {"claude-code": "Bash", "gemini": "run_shell_command", "opencode": "bash"}[agent]
    return stories.tool(name, command=command, description="work")


def write(agent: str, project: Path, name: str, text: str) -> Tool:
    """The client's own tool writes a new file of one line."""
    if agent == "codex":
        lines = ("*** Begin Patch", f"*** Add File: {name}", f"+{text}", "*** End Patch")
        return {"name": "apply_patch", "custom": True, "input": "\n".join(lines)}
    path, content = str(project / name), f"{text}\n"
    if agent == "opencode":
        return stories.tool("write", filePath=path, content=content)
    return stories.tool(
        {"claude-code": "Write", "gemini": "write_file"}[agent], file_path=path, content=content
    )


def of(agent: str, project: Path, signals: Path) -> stories.Script:
    """The story of a client, and more scenes for it."""
    script: stories.Script = getattr(stories, agent.replace("-", "_"))(project, signals)
    # The shell of a session that goes on may be in another folder by now.
    for name in ("data/table.csv", "main.txt"):
        told = json.dumps(script).replace(f' {name}"', f' {project / name}"')
        script = json.loads(told)
    alone = [
        stories.turn(write(agent, project, "helper.txt", "helped")),
        stories.turn(shell(agent, f"rm {project / 'data/table.csv'}")),
        stories.turn(shell(agent, f"echo main > {project / 'main.txt'}")),
    ]
    return {
        # Whoever has no subagents does it all.
        "delegate": alone,
        **script,
        # What the agent does after something of it was taken back.
        "again": [stories.turn(write(agent, project, "again.txt", "again"))],
        # What no undo reaches, and something harmless after it. Then the same once more.
        "publish": [
            stories.turn(shell(agent, PUSH)),
            stories.turn(write(agent, project, "published.txt", "published")),
        ],
        "insist": [stories.turn(shell(agent, PUSH))],
    }


PUSH = "git push origin HEAD:refs/heads/main"
