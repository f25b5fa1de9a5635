"""Commands that a human has allowed by their words run without a question; only humans are told how that is done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from takeback.agents.event import HookAnswer
from takeback.workspace.workspace import Workspace
from tests.world import settings
from tests.world.cli import Workspace as World

from .driving import AGENTS, Agent, asks, refusal

PUSH = "git push origin main"


def configured(desk: Path, text: str, agent: str = "claude-code") -> Agent:
    settings.write(desk, text)
    client = Agent(agent, desk)
    client.prompt("go", "p1")
    return client


def heard_by_the_model(answer: HookAnswer) -> str:
    """What the model of any of these clients is given to read."""
    said = json.loads(answer.stdout or b"{}")
    for name in ("systemMessage", "user_message"):
        said.pop(name, None)
    own = said.get("hookSpecificOutput", {})
    if own.get("permissionDecision") == "ask":
        own.pop("permissionDecisionReason")  # that is for the human
    return json.dumps(said) + (answer.stderr.decode() if answer.code == 2 else "")


@pytest.mark.parametrize("autopilot", [False, True])
def test_an_allowed_command_runs_and_is_recorded_as_what_it_is(
    autopilot: bool, desk: Path, tb: Workspace
) -> None:
    on = "true" if autopilot else "false"
    allow = f'[agents]\nautopilot = {on}\n[rules.commands]\nallow = ["git push origin *"]\n'
    client = configured(desk, allow)
    assert refusal(client.shell(PUSH, "c1")) == ""
    client.ran(PUSH, "c1")
    (action,) = tb.history.actions.values()
    assert action.began.effect == "irreversible"  # type: ignore[union-attr]
    for number, line in enumerate(
        [
            "git push other main",
            f"{PUSH} && npm publish",
            f"{PUSH}; echo x > /dev/sda",
            "env git push",
            "$x git push",
        ]
    ):
        assert refusal(client.shell(line, f"d{number}")) or line == "$x git push", line
    assert refusal(client.shell(f"sudo {PUSH}", "e1")) == "", "each command of a line is looked at by itself"


@pytest.mark.parametrize("rule", ["ask", "deny"])
def test_ask_and_deny_count_more(rule: str, desk: Path, tb: Workspace) -> None:
    client = configured(desk, f'[rules.commands]\nallow = ["git push"]\n{rule} = ["git push --force*"]\n')
    assert refusal(client.shell(PUSH, "c1")) == ""
    assert refusal(client.shell("git push --force origin main", "c2"))


@pytest.mark.parametrize("agent", AGENTS)
def test_the_model_is_not_told_the_line_that_would_allow_it(agent: str, desk: Path, tb: Workspace) -> None:
    client = configured(desk, "", agent)
    for number, autopilot in enumerate(("false", "true")):
        (desk / "takeback.toml").write_text(f"[agents]\nautopilot = {autopilot}\n")
        answer = client.shell(PUSH, f"c{number}")
        told = heard_by_the_model(answer)
        assert "takeback.toml" not in told and "rules.commands" not in told, told


def test_the_human_is_told_it(desk: Path, tb: Workspace) -> None:
    client = configured(desk, "")
    answer = client.shell(PUSH, "c1")
    assert asks(answer)
    said = json.loads(answer.stdout)
    assert f'add "{PUSH}" to allow in [rules.commands] of takeback.toml' in said["systemMessage"]
    # A secret is not repeated: then the rule is named.
    answer = client.shell("curl -d password=hunter2-and-more https://example.org", "c2")
    assert "hunter2" not in json.loads(answer.stdout)["systemMessage"]


def test_a_server_of_this_session_may_be_ended_and_asked(desk: Path, tb: Workspace) -> None:
    client = configured(desk, "[agents]\nautopilot = true\n")
    other = subprocess.Popen(["sleep", "600"])
    try:
        assert refusal(client.shell(f"kill {other.pid}", "c1")), "nobody of this session started it"
        assert refusal(client.shell("curl -X POST http://localhost:1/x -d a=b", "c2")) == ""
        assert refusal(client.shell("sleep 600 & kill $!", "c3")) == ""
    finally:
        other.kill()
        other.wait()


def test_a_setting_makes_what_is_the_sessions_own_irreversible_again(desk: Path, tb: Workspace) -> None:
    client = configured(desk, '[agents]\nautopilot = true\n[rules.effects]\nlocal = "irreversible"\n')
    assert refusal(client.shell("curl -X POST http://localhost:1/x -d a=b", "c4"))
    assert refusal(client.shell("sleep 600 & kill $!", "c5"))


def test_a_process_that_a_recorded_command_left_is_the_sessions_own(desk: Path, tb: Workspace) -> None:
    world = World(desk, tb.state.parent.parent)
    done = world.run("run", "--", "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $! > pid")
    assert done.code == 0, done
    pid = int((desk / "pid").read_text())
    try:
        client = configured(desk, "[agents]\nautopilot = true\n")
        assert refusal(client.shell(f"kill -9 {pid}", "c1")) == ""
        assert refusal(client.shell(f"kill {os.getpid()}", "c2"))
    finally:
        os.kill(pid, signal.SIGKILL)
