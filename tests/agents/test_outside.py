"""What an agent's call names outside the project is captured, in each agent's own way, and taken back."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from takeback.workspace.workspace import Workspace

from .driving import AGENTS, Agent, refusal


@pytest.fixture
def other(desk: Path) -> Path:
    made = desk.parent / "other"
    (made / "deep").mkdir(parents=True)
    (made / "deep/a").write_text("a\n")
    (made / "b").write_text("b\n")
    return made


@pytest.mark.parametrize("agent", AGENTS)
def test_a_shell_command(agent: str, desk: Path, other: Path, tb: Workspace) -> None:
    client = Agent(agent, desk)
    client.prompt("go", "p1")
    command = "rm -rf ../other"
    assert refusal(client.shell(command, "c1")) == ""
    subprocess.run(command, shell=True, cwd=desk, check=True)
    client.ran(command, "c1")
    client.stop()
    assert not other.exists()
    assert tb.undo().verdict.value == "clean"
    assert (other / "deep/a").read_text() == "a\n"


@pytest.mark.parametrize("agent", AGENTS)
def test_what_is_over_the_limit_is_held_back(agent: str, desk: Path, other: Path, tb: Workspace) -> None:
    (desk / "takeback.toml").write_text("[outside]\nmax-files = 2\n[agents]\nautopilot = true\n")
    client = Agent(agent, desk)
    client.prompt("go", "p1")
    assert f"{other} was not captured" in refusal(client.shell("rm -rf ../other", "c1"))
    assert not tb.history.actions


def test_an_editing_tool(desk: Path, other: Path, tb: Workspace) -> None:
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    client.write("../other/b", "new\n")
    client.stop()
    tb.undo()
    assert (other / "b").read_text() == "b\n"


def test_a_patch(desk: Path, other: Path, tb: Workspace) -> None:
    client = Agent("codex", desk)
    client.prompt("go", "p1")
    patch = f"*** Begin Patch\n*** Update File: {other}/b\n@@\n-b\n+new\n*** End Patch\n"
    client.pre("apply_patch", {"command": patch}, "c1")
    (other / "b").write_text("new\n")
    client.post("apply_patch", {"command": patch}, "c1")
    client.stop()
    tb.undo()
    assert (other / "b").read_text() == "b\n"
