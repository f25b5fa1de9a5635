"""What cannot be taken back is held on autopilot and asked for otherwise, in each agent's own way."""

from __future__ import annotations

from pathlib import Path

import pytest

from takeback.core.lifecycle import Life
from takeback.core.trust import untrusted_since
from takeback.workspace.trusted_settings import CONFIG
from takeback.workspace.workspace import Workspace
from tests.world.cli import Workspace as World

from .driving import AGENTS, Agent, asks, refusal

PUSH = "git push origin main"


@pytest.mark.parametrize("agent", AGENTS)
def test_on_autopilot_it_is_refused_with_a_reason(agent: str, desk: Path, tb: Workspace) -> None:
    (desk / "takeback.toml").write_text("[agents]\nautopilot = true\n")
    client = Agent(agent, desk)
    client.prompt("go", "p1")
    answer = client.shell(PUSH, "c1")
    assert "git push" in refusal(answer) and "on autopilot there is no human to ask" in refusal(answer)
    assert not asks(answer)
    assert not tb.history.actions, "what was refused was never begun"
    assert refusal(client.shell("ls", "c2")) == ""


@pytest.mark.parametrize("agent", ["codex", "gemini", "opencode", "claude-code"])
def test_who_cannot_ask_is_told_how_it_can_be_allowed(agent: str, desk: Path, tb: Workspace) -> None:
    client = Agent(agent, desk, CLAUDE_CODE_ENTRYPOINT="sdk-cli")  # `claude -p`: nobody is there to be asked
    client.prompt("go", "p1")
    answer = client.shell(PUSH, "c1", description="first")
    (approval,) = tb.approvals()
    assert f"takeback approve {approval.id}" in refusal(answer)
    assert "this command is irreversible (git push" in refusal(answer)
    assert "Then try again in this session." in refusal(answer) and not asks(answer)
    assert not tb.history.actions
    # Only exactly this passes, and once. What the agent says about it beside does not matter.
    tb.approve(approval.id)
    assert refusal(client.shell("git push --force origin main", "c2"))
    assert refusal(client.shell(PUSH, "c3", description="again")) == ""
    client.ran(PUSH, "c3", description="again")
    assert refusal(client.shell(PUSH, "c4"))
    (action,) = tb.history.actions.values()
    assert (action.life, action.began.effect) == (Life.DONE, "irreversible")  # type: ignore[union-attr]


def test_an_approval_outlives_a_pause_of_the_session(desk: Path, tb: Workspace) -> None:
    client = Agent("codex", desk)
    client.prompt("go", "p1")
    client.shell(PUSH, "c1")
    client.end()
    (approval,) = tb.approvals()
    tb.approve(approval.id)
    client.prompt("try again", "p2")
    assert refusal(client.shell(PUSH, "c2")) == ""


def test_who_can_ask_does_and_what_the_human_allows_is_captured(desk: Path, tb: Workspace) -> None:
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    answer = client.shell(f"{PUSH} && touch pushed", "c1")
    assert asks(answer) and "git push" in refusal(answer)
    again = client.shell(f"{PUSH} && touch pushed", "c1")
    assert asks(again), "the first answer may have been lost"
    (desk / "pushed").write_text("")  # the human said yes, in the client
    client.ran(f"{PUSH} && touch pushed", "c1")
    (action,) = tb.history.actions.values()
    assert action.life is Life.DONE
    assert {str(change.target) for change in action.changes} >= {"pushed"}
    assert not tb.approvals(), "nobody has to answer twice"


def test_what_the_human_refuses_in_the_client_leaves_nothing_open(desk: Path, tb: Workspace) -> None:
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    assert asks(client.shell(PUSH, "c1"))
    client.stop()
    (action,) = tb.history.actions.values()
    assert (action.life, action.changes) == (Life.FAILED, ())
    assert "was not allowed" in action.why
    logged = World(desk, tb.state.parent.parent).run("log").stdout
    assert "not allowed" in logged and "failed" not in logged
    client.write("a", "a\n")
    # It never happened, so it is nothing that an undo would have to leave.
    assert tb.undo(*tb.history.runs).verdict == "clean"


def test_cursor_asks_at_the_question_that_follows(desk: Path, tb: Workspace) -> None:
    client = Agent("cursor", desk)
    client.prompt("go", "g1")
    assert not asks(client.tell("beforeShellExecution", command="ls", cwd=str(desk)))
    assert refusal(client.shell(PUSH, "c1")) == ""
    answer = client.tell("beforeShellExecution", command=PUSH, cwd=str(desk))
    assert asks(answer) and "Takeback asks for your approval" in refusal(answer)
    client.ran(PUSH, "c1")
    assert not asks(client.tell("beforeShellExecution", command="ls", cwd=str(desk)))
    (action,) = tb.history.actions.values()
    assert action.life is Life.DONE


def test_a_patch_is_not_judged_as_a_command(desk: Path, tb: Workspace) -> None:
    client = Agent("codex", desk)
    client.prompt("go", "t1")
    patch = "*** Begin Patch\n*** Add File: ship.sh\n+git push --force\n*** End Patch"
    assert refusal(client.pre("apply_patch", {"command": patch}, "c1")) == ""
    (desk / "ship.sh").write_text("git push --force\n")
    client.post("apply_patch", {"command": patch}, "c1")
    (action,) = tb.history.actions.values()
    assert action.began.effect == "restorable"  # type: ignore[union-attr]


def test_an_agent_cannot_loosen_its_own_gate(desk: Path, tb: Workspace) -> None:
    (desk / "takeback.toml").write_text("[agents]\nautopilot = true\n")
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    client.write("takeback.toml", "[agents]\nautopilot = false\n[rules.effects]\nirreversible = 'allow'\n")
    assert "on autopilot" in refusal(client.shell(PUSH, "c9"))
    assert untrusted_since(tb.history, CONFIG) is not None
