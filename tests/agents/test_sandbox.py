"""Which commands of agents are put into the sandbox, and what happens where the kernel has none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from takeback.agents.event import HookAnswer
from takeback.system import landlock, namespaces
from tests.world import settings

from .driving import AGENTS, Agent, refusal

pytestmark = pytest.mark.skipif(
    landlock.version() < landlock.LEAST or bool(namespaces.why_refused()),
    reason="not on this platform: the kernel has no Landlock, or allows no namespaces",
)
UNKNOWN, PLAIN, REFUSED = 'eval "$DEED"', "echo 1 > a", "git push"
AUTOPILOT = "[agents]\nautopilot = true\n"
REWRITING = ("claude-code", "opencode")


def rewritten(answer: HookAnswer) -> str:
    """The command that the client is to run instead; nothing where it stays."""
    said = json.loads(answer.stdout or b"{}")
    return str(
        said.get("command") or said.get("hookSpecificOutput", {}).get("updatedInput", {}).get("command", "")
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


@pytest.mark.parametrize("agent", AGENTS)
def test_on_autopilot_only_what_cannot_be_judged(agent: str, project: Path) -> None:
    settings.write(project, AUTOPILOT)
    session = Agent(agent, project)
    session.prompt("work")
    assert rewritten(session.shell(PLAIN, "c1")) == ""
    session.ran(PLAIN, "c1")
    found = rewritten(session.shell(UNKNOWN, "c2"))
    if agent not in REWRITING:
        assert found == ""
        return
    prelude, _, rest = found.partition("; ")
    assert rest == UNKNOWN
    assert prelude.startswith(". ") and prelude.endswith(".sh")
    # A client that missed the answer and asks again is told the same.
    assert rewritten(session.shell(UNKNOWN, "c2")).endswith(f"; {UNKNOWN}")


@pytest.mark.parametrize("agent", REWRITING)
def test_every_command_if_a_human_said_so(agent: str, project: Path) -> None:
    settings.write(project, '[sandbox]\ncommands = "all"\n')
    session = Agent(agent, project)
    session.prompt("work")
    assert rewritten(session.shell(PLAIN, "c1")).endswith(f"; {PLAIN}")


@pytest.mark.parametrize("agent", REWRITING)
def test_none_if_a_human_said_so(agent: str, project: Path) -> None:
    settings.write(project, AUTOPILOT + '[sandbox]\ncommands = "off"\n')
    session = Agent(agent, project)
    session.prompt("work")
    answer = session.shell(UNKNOWN, "c1")
    assert (rewritten(answer), refusal(answer)) == ("", "")


@pytest.mark.parametrize("agent", REWRITING)
def test_where_there_is_no_sandbox_autopilot_refuses_what_is_unknown(
    agent: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAKEBACK_NAMESPACES", "off")
    settings.write(project, AUTOPILOT)
    session = Agent(agent, project)
    session.prompt("work")
    why = refusal(session.shell(UNKNOWN, "c1"))
    assert "its effect is unknown, and it cannot run in the sandbox" in why
    assert "switched off by TAKEBACK_NAMESPACES" in why
    assert refusal(session.shell(PLAIN, "c2")) == ""
