"""Takeback was removed and its hooks were not: whatever is missing, the agent goes on, and its human is told once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from takeback.agents import settings
from takeback.agents.settings import apply
from takeback.shell import parse
from takeback.workspace.workspace import Workspace
from tests.house.repository import ROOT

from .driving import Agent, refusal

SHELLS = ("claude-code", "codex", "cursor", "gemini")


class Installation:
    """A Takeback and a Python of its own, so that either can go. The Python has none of the packages it needs."""

    def __init__(self, folder: Path) -> None:
        self.package = folder / "site packages/takeback"
        self.python = folder / "venv/bin/python"
        shutil.copytree(ROOT / "src/takeback", self.package, ignore=shutil.ignore_patterns("__pycache__"))
        self.python.parent.mkdir(parents=True)
        self.python.symlink_to(getattr(sys, "_base_executable", sys.executable))

    def command(self, agent: str) -> str:
        return f"{self.python} -I -S '{self.package}/daemon/knock.py' {agent}"

    def package_goes(self) -> None:
        shutil.rmtree(self.package)

    def half_of_the_package_goes(self) -> None:
        (self.package / "daemon/client.py").unlink()

    def interpreter_goes(self) -> None:
        self.python.unlink()

    def venv_dangles(self) -> None:
        """The Python that it was made of is gone, as after an upgrade of the system."""
        self.python.unlink()
        self.python.symlink_to("/nonexistent/python3.9")

    def interpreter_breaks(self) -> None:
        self.python.unlink()
        self.python.write_text("#!/nonexistent/loader\n")
        self.python.chmod(0o755)

    def another_python_comes(self) -> None:
        """One that does not know these options, and ends with what is a refusal to an agent."""
        self.python.unlink()
        self.python.write_text("#!/bin/sh\ncat > /dev/null\necho Unknown option: -I >&2\nexit 2\n")
        self.python.chmod(0o755)

    def packages_are_of_an_older_python(self) -> None:
        """It is all there, and cannot be loaded: what it needs is missing for this Python."""


WAYS: list[Callable[[Installation], None]] = [
    Installation.package_goes,
    Installation.half_of_the_package_goes,
    Installation.interpreter_goes,
    Installation.venv_dangles,
    Installation.interpreter_breaks,
    Installation.packages_are_of_an_older_python,
]


def told(path: Path, agent: str, event: str, home: Path) -> subprocess.CompletedProcess[str]:
    """One event through the command in the settings, as clients start it."""
    (entry,) = json.loads(path.read_text())["hooks"][event]
    command = entry["command"] if "command" in entry else entry["hooks"][0]["command"]
    given: dict[str, Any] = {"hook_event_name": event, "session_id": "s", "cwd": str(home)}
    given |= {"prompt": "go", "tool_name": "Bash", "tool_input": {"command": "rm a"}, "tool_use_id": "1"}
    return subprocess.run(
        ["sh", "-c", command],
        input=json.dumps(given),
        cwd=home,
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "TAKEBACK_HOME": str(home / "state")},
        capture_output=True,
        text=True,
        timeout=60,
    )


CASES = [("claude-code", way) for way in WAYS]
CASES += [(agent, WAYS[0]) for agent in SHELLS[1:]] + [(agent, WAYS[-1]) for agent in SHELLS[1:]]


@pytest.mark.parametrize("agent, way", CASES, ids=lambda part: getattr(part, "__name__", part))
def test_every_event_goes_on_and_the_first_one_says_why(
    agent: str, way: Callable[[Installation], None], tmp_path: Path
) -> None:
    made, path = Installation(tmp_path), tmp_path / "settings.json"
    apply.installing(agent, path, made.command(agent)).make()
    way(made)
    said = {event: told(path, agent, event, tmp_path) for event in settings.layout(agent).events}
    assert {event: done.returncode for event, done in said.items()} == dict.fromkeys(said, 0)
    answers = {event: json.loads(done.stdout) for event, done in said.items() if done.stdout}
    (first,) = answers.values()
    assert list(answers) == [settings.layout(agent).events[0]]
    (text,) = first.values()
    assert "Takeback" in text and "can be taken back" in text


@pytest.mark.parametrize(
    "gone",
    [
        "daemon/start.py",
        "agents/dialects/claude_code.py",
        "agents/following.py",
        "agents/rollback_news.py",
    ],
)
def test_one_file_that_is_missing_is_said_once_too(gone: str, tmp_path: Path) -> None:
    """Here Python has all packages, so that Takeback gets as far as that file."""
    made, path = Installation(tmp_path), tmp_path / "settings.json"
    made.python = Path(sys.executable)
    apply.installing("claude-code", path, made.command("claude-code")).make()
    (made.package / gone).unlink()
    try:
        said = {event: told(path, "claude-code", event, tmp_path) for event in settings.CLAUDE_CODE}
    finally:
        stop = [sys.executable, "-m", "takeback", "daemon", "stop"]
        subprocess.run(stop, env=os.environ | {"TAKEBACK_HOME": str(tmp_path / "state")}, check=True)
    assert {event: done.returncode for event, done in said.items()} == dict.fromkeys(said, 0)
    (first,) = [json.loads(done.stdout) for done in said.values() if done.stdout]
    assert "Takeback" in first["systemMessage"] and "hookSpecificOutput" not in first


def test_a_python_that_ends_like_a_refusal_refuses_nothing(tmp_path: Path) -> None:
    made, path = Installation(tmp_path), tmp_path / "settings.json"
    apply.installing("claude-code", path, made.command("claude-code")).make()
    made.another_python_comes()
    for event in ("UserPromptSubmit", "PreToolUse", "Stop"):
        done = told(path, "claude-code", event, tmp_path)
        assert done.returncode == 0
        # It took the event, so it is not simply gone: that is said each time.
        assert "Takeback does not work" in done.stdout


def test_a_package_that_is_loaded_late_and_missing_holds_nobody_up(
    desk: Path, tb: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    for name in [name for name in sys.modules if name.startswith("tree_sitter")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tree_sitter", None)
    parse._parser.cache_clear()
    answer = client.shell("rm app.py", "c1")
    assert refusal(answer) == ""
    assert "tree_sitter" in json.loads(answer.stdout)["systemMessage"]


@pytest.mark.parametrize("agent", SHELLS)
def test_hooks_of_an_older_version_are_known_replaced_and_taken_out(agent: str, tmp_path: Path) -> None:
    """Theirs was the bare command, which holds an agent up once its program is gone."""
    of, path = settings.layout(agent), tmp_path / "settings.json"
    for theirs in (f"/usr/bin/python3 -I -S /opt/takeback/daemon/knock.py {agent}", f"takeback-hook {agent}"):
        hooks = {event: [of.entry(event, theirs)] for event in of.events}
        old = json.dumps({"mine": 1, "hooks": hooks})
        path.write_text(old)
        assert settings.commands(agent, old) == [theirs]
        assert not settings.goes_on_without(agent, old)
        assert json.loads(settings.uninstall(agent, old)) == {"mine": 1}
        apply.installing(agent, path, theirs).make()
        assert settings.goes_on_without(agent, path.read_text())
        (command,) = settings.commands(agent, path.read_text())
        assert settings.program(command) == theirs.split()
        assert apply.installing(agent, path, theirs).diff == ""
        assert json.loads(settings.uninstall(agent, path.read_text())) == {"mine": 1}
