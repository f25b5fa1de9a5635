"""What an action would do is found out once, and handed on: to the gate, the guard of locks, and the journal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from takeback.cli.app import main
from takeback.shell import classify as shell
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace
from tests.agents.driving import AGENTS, Agent, asks, refusal
from tests.engine import command_tools

Asked = list[Any]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "desk"
    made.mkdir()
    monkeypatch.chdir(made)
    return made


@pytest.fixture
def tb(desk: Path) -> Iterator[Workspace]:
    with open_workspace(desk, watching=False) as opened:
        yield opened


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Every command that is classified, in order. What it would do is found out as ever."""
    found: Asked = []
    classify = shell.classify

    def counted(command: Any, **where: Any) -> Any:
        found.append(command)
        return classify(command, **where)

    monkeypatch.setattr(shell, "classify", counted)
    return found


@pytest.mark.parametrize("line", ["git push origin main", "echo x > ../near.txt", "ls", "env " * 9 + "ls"])
def test_once_for_a_call_of_a_run(line: str, tb: Workspace, asked: Asked) -> None:
    with tb.run("work", approve=lambda _: True) as run:
        run.call(command_tools.shell, line)
    assert asked == [line]


def test_once_for_a_call_that_declares_how_it_is_taken_back(tb: Workspace, asked: Asked) -> None:
    with tb.run("work") as run:
        run.call(command_tools.ship, "git push")
    assert asked == ["git push"]


@pytest.mark.parametrize("agent", AGENTS)
def test_once_for_an_event_of_a_hook(agent: str, desk: Path, tb: Workspace, asked: Asked) -> None:
    with tb.run("another") as run, run.lock("locked.txt"):
        client = Agent(agent, desk)
        client.prompt("go", "p1")
        line = "echo x > locked.txt && echo y > ../near.txt"
        client.shell(line, "c1")
        assert asked == [line], "before it begins"
        client.ran(line, "c1")
        assert asked == [line], "and not when it has ended"
        client.shell("git push origin main", "c2")
        assert asked == [line, "git push origin main"]


def test_once_where_the_rules_name_it(desk: Path, asked: Asked) -> None:
    (desk / "takeback.toml").write_text('[rules.commands]\nallow = ["git push"]\n')
    with open_workspace(desk, watching=False, accept_config=True):
        client = Agent("claude-code", desk)
        client.prompt("go", "p1")
        assert not refusal(client.shell("git push origin main", "c1"))
        assert asks(client.shell("npm publish", "c2"))
    assert asked == ["git push origin main", "npm publish"]


@pytest.mark.parametrize("more", [[], ["--autopilot"]])
def test_once_for_a_command_under_takeback_run(more: list[str], desk: Path, asked: Asked) -> None:
    (desk / "takeback.toml").write_text('[rules.commands]\nallow = ["git push"]\n')
    with open_workspace(desk, watching=False, accept_config=True):
        pass
    with pytest.raises(SystemExit):
        main(["run", *more, "git", "push", "--dry-run", "nowhere"])
    assert asked == [("git", "push", "--dry-run", "nowhere")]
