"""A tool that is given a command which cannot be taken back is gated as one that cannot be taken back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from takeback.core.entities import Approval
from takeback.core.events import ActionBegan, Effect
from takeback.core.plan import parse_plan
from takeback.core.rules import Rules
from takeback.engine.gate.foresight import Foresight
from takeback.engine.plans import prepare
from takeback.errors import RefusedError
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace
from tests.engine import command_tools
from tests.engine.command_tools import ran, shell, ship

TOOLS = command_tools.__name__


@pytest.fixture
def tb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    root = tmp_path / "work"
    root.mkdir()
    monkeypatch.chdir(root)
    monkeypatch.setitem(sys.modules, TOOLS, command_tools)
    ran.clear()
    with open_workspace(root, home=tmp_path / "state", watching=False) as workspace:
        yield workspace


def effects(tb: Workspace, name: str) -> list[Effect]:
    began = [action.began for action in tb.history.actions.values() if action.name == name]
    return [event.effect for event in began if isinstance(event, ActionBegan)]


def test_on_autopilot_a_push_by_a_tool_is_refused(tb: Workspace) -> None:
    with pytest.raises(RefusedError, match="git push"), tb.run("x", autopilot=True) as run:
        run.call(shell, "cd src && git push origin main")
    assert ran == []


def test_at_the_limits_of_the_judge_a_human_is_asked(tb: Workspace) -> None:
    asked = []

    def approve(approval: Approval) -> bool:
        asked.append(approval.asked.why)
        return False

    with pytest.raises(RefusedError), tb.run("x", approve=approve) as run:
        run.call(shell, "env " * 9 + "ls")
    assert ran == []
    assert "nested too deeply" in asked[0]


def test_otherwise_a_human_is_asked_and_the_effect_is_recorded(tb: Workspace) -> None:
    asked = []

    def approve(approval: Approval) -> bool:
        asked.append((approval.asked.effect, approval.asked.why))
        return True

    with tb.run("x", approve=approve) as run:
        assert run.call(shell, "git push") == "done"
        assert run.call(shell, "git status") == "done"
    ((effect, why),) = asked
    assert effect is Effect.IRREVERSIBLE
    assert "another repository" in why
    assert effects(tb, "shell") == [Effect.IRREVERSIBLE, Effect.RESTORABLE]


def test_a_tool_that_can_be_taken_back_is_not_asked_for(tb: Workspace) -> None:
    with tb.run("x", autopilot=True) as run:
        assert run.call(ship, "git push") == "shipped"
    assert effects(tb, "ship") == [Effect.COMPENSABLE]


def test_a_plan_with_a_push_is_known_before_it_begins(tb: Workspace) -> None:
    steps = [
        {"id": "look", "tool": f"{TOOLS}:shell", "args": {"command": "git log"}},
        {"id": "send", "tool": f"{TOOLS}:shell", "args": {"command": "git push"}},
    ]
    plan = parse_plan(json.dumps({"name": "p", "steps": steps}).encode())
    foresee = Foresight(tb.root, "/home/me")
    prepared = prepare(plan, root=tb.root, rules=Rules(), known={}, foresee=foresee)
    assert [(q.step, q.rule) for q in prepared.asks] == [("send", "effects.irreversible")]
    assert [prepared.use(step).effect for step in prepared.order] == [Effect.RESTORABLE, Effect.IRREVERSIBLE]
    refused = prepare(plan, root=tb.root, rules=Rules(), known={}, foresee=foresee, autopilot=True)
    assert [broken.step for broken in refused.broken] == ["send"]


def test_the_parser_is_loaded_only_for_a_line(tmp_path: Path) -> None:
    code = (
        "import sys; from takeback.engine.gate.foresight import Foresight; f = Foresight('/w', '/h');"
        "assert f(['git', 'push']); assert 'tree_sitter' not in sys.modules;"
        "assert f('git push'); assert 'tree_sitter' in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_written_to_a_pipe_or_through_another_name_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "work"
    root.mkdir()
    monkeypatch.chdir(root)
    os.mkfifo(root / "server")
    os.mkfifo(tmp_path / "outside")
    (root / "link").symlink_to("server")
    (root / "a").write_text("a")
    (root / "b").hardlink_to(root / "a")
    (root / "plain").write_text("plain")
    foresight = Foresight(root, tmp_path)
    for line in (
        "echo 'git push' > server",
        "tee link < plain",
        f"echo x >> {tmp_path}/outside",
        "cp plain server",
        "echo x > a",
        "cp plain a",
    ):
        assert foresight(line).effect is Effect.UNKNOWN, line
    assert "what its reader does is not known" in foresight("echo x > server").why
    assert foresight("echo x > plain").effect is foresight("rm server a").effect is Effect.NONE
