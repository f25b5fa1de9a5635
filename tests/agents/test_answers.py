"""The real clients understand the answers: what is refused does not happen, what is told is heard by the model."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from . import answering, clients, installing, recording, stories

pytestmark = pytest.mark.timeout(900)  # the first time, hundreds of megabytes are fetched

SHELLS: dict[str, tuple[str, str]] = {
    "claude-code": ("Bash", "command"),
    "codex": ("exec_command", "cmd"),
    "gemini": ("run_shell_command", "command"),
    "opencode": ("bash", "command"),
}


def shell(agent: str, command: str) -> Mapping[str, Any]:
    name, field = SHELLS[agent]
    return stories.tool(name, **{field: command, "description": "work"})


def of_npm(agent: str) -> Any:
    """They are slow to start; test_e2e_npm.py has them in every run."""
    return pytest.param(agent, marks=pytest.mark.sweep)


@pytest.mark.parametrize("agent", ["claude-code", "codex", of_npm("gemini"), of_npm("opencode")])
def test_the_client_understands(agent: str, tmp_path: Path) -> None:
    desk = clients.Desk.at(tmp_path)
    desk.more["PYTHONPATH"] = f"{installing.ROOT / 'src'}:{installing.ROOT}"
    name = agent.replace("-", "_")
    recording.install_hook(name, desk, [sys.executable, "-m", answering.__name__, agent])
    turns = [shell(agent, f"echo {word} > {word}.txt") for word in ("denied", "allowed", "asked")]
    with clients.model(tmp_path, {"work": [stories.turn(tool) for tool in turns]}) as model:
        getattr(clients, name)(model, desk, "[scene work] go")
        heard = [json.dumps(request["body"]) for request in model.requests()]
    # Nobody is there to be asked, so what would be asked does not happen either.
    assert sorted(path.name for path in desk.project.glob("*.txt")) == ["allowed.txt"]
    assert any(answering.REASON in body for body in heard)
    assert any(answering.CONTEXT in body for body in heard)
    # Who cannot ask says how it can be allowed.
    assert any(answering.HOW in body for body in heard)
