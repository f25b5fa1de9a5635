"""Hooks that an action changes: it is told, and they come back."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from takeback.agents import settings
from tests.world.cli import Workspace

from .desk import Desk
from .driving import Agent, asks, refusal


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk.at(tmp_path)


@pytest.fixture
def world(desk: Desk) -> Workspace:
    desk.do("install", "claude-code")
    return Workspace(desk.root, desk.home)


PLACE = ".claude/settings.local.json"


def test_our_own_writing_is_the_humans(desk: Desk, world: Workspace) -> None:
    world.agent("echo new > plan.md")
    assert desk.do("status", "--json").json["warnings"] == []
    desk.undo()
    assert settings.missing("claude-code", world.read(PLACE)) == []


def test_hooks_that_an_action_took_out_are_told_and_come_back(desk: Desk, world: Workspace) -> None:
    kept = world.read(PLACE)
    world.agent(f"echo '{{}}' > {PLACE}", name="clever")
    action = world.action("clever")
    done = desk.do("status")
    assert f"the hooks of Claude Code in {PLACE} were removed by {action}" in done.stderr
    assert f"takeback undo {action}" in done.stderr
    desk.undo()
    assert world.read(PLACE) == kept
    assert desk.do("status").stderr == ""


def test_what_a_human_wrote_or_accepted_is_not_told(desk: Desk, world: Workspace) -> None:
    value = json.loads(world.read(PLACE))
    value["hooks"]["Stop"].append({"hooks": [{"type": "command", "command": "say done"}]})
    world.agent(f"cat > {PLACE} <<'END'\n{json.dumps(value)}\nEND", name="more")
    assert "were changed by" in desk.do("status").stderr
    desk.do("install", "claude-code")  # a human says that this is well
    assert desk.do("status").stderr == ""
    world.agent(f"rm {PLACE}", name="less")
    assert "were removed by" in desk.do("status").stderr
    desk.do("install", "claude-code")
    assert desk.do("status").stderr == ""
    world.agent(f"echo '{{' > {PLACE}", name="spoilt")
    assert "were broken by" in desk.do("status").stderr
    world.human(PLACE, "{}")
    assert desk.do("save").stderr == "" and desk.do("status").stderr == ""


def test_an_agent_does_not_take_out_its_own_hooks(desk: Desk, world: Workspace) -> None:
    kept = world.read(PLACE)
    done = world.run("run", "--", sys.executable, "-m", "takeback", "uninstall", "claude-code")
    assert done.code == 3 and "only a human can remove the hooks" in done.stderr
    assert world.read(PLACE) == kept


# The user's own settings, which hold for every project


def test_hooks_in_the_users_own_settings_are_watched_too(
    desk: Desk, world: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(desk.user))
    desk.do("install", "--user", "claude-code")
    mine = desk.settings("claude-code", user=True)
    kept = mine.read_text()
    desk.do("save")
    assert desk.do("status").stderr == ""
    desk.do("run", "--name", "clever", "--", "sh", "-c", f"echo '{{}}' > {mine}")
    action = world.action("clever")
    assert f"the hooks of Claude Code in {mine} were removed by {action}" in desk.do("status").stderr
    desk.do("undo", action)
    assert mine.read_text() == kept and desk.do("status").stderr == ""


@pytest.mark.parametrize("autopilot", [False, True])
@pytest.mark.parametrize("agent", ["claude-code", "codex", "gemini", "opencode", "cursor"])
def test_an_agent_is_held_from_the_users_own_settings(
    agent: str, autopilot: bool, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(desk.user))
    monkeypatch.setenv("TAKEBACK_HOME", str(desk.home))
    if autopilot:
        desk.human("takeback.toml", "[agents]\nautopilot = true\n")
    mine = desk.settings(agent, user=True)
    mine.parent.mkdir(parents=True)
    mine.write_text("{}")
    client = Agent("claude-code", desk.root)
    client.prompt("go", "p1")
    calls = [
        ("Bash", {"command": f"echo x > {mine}"}),
        ("Bash", {"command": f"rm -r ~/{mine.relative_to(desk.user).parts[0]}"}),
        ("Bash", {"command": f"cp a ~/{mine.relative_to(desk.user)}"}),
        ("Write", {"file_path": str(mine), "content": ""}),
    ]
    for number, (tool, args) in enumerate(calls):
        answer = client.pre(tool, args, f"c{number}")
        assert "can switch off its own protection" in refusal(answer), (tool, args)
        assert asks(answer) is not autopilot
    beside = mine.parent / "notes.txt"
    harmless = client.pre("Write", {"file_path": str(beside), "content": "x"}, "c9")
    assert not asks(harmless) and not refusal(harmless)
