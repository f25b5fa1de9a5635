"""Takeback is removed and its hooks stay: each real client goes on with its work as if they were not there."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from takeback.agents.settings import apply, failing_open
from tests.house.repository import ROOT

from . import clients, scenes, stories
from .protection import USER_LEVEL
from .test_gone import Installation

pytestmark = pytest.mark.timeout(900)  # the first time, hundreds of megabytes are fetched

GOES = Installation.package_goes
WAYS = [GOES, Installation.interpreter_goes, Installation.packages_are_of_an_older_python]
CASES = [(agent, GOES) for agent in ("claude-code", "codex", "gemini", "opencode")]
LONG = [
    pytest.param(agent, way, marks=pytest.mark.sweep)
    for agent in ("claude-code", "codex", "gemini", "opencode")
    for way in WAYS[1:]
]


def at(folder: Path, agent: str) -> tuple[clients.Desk, stories.Script]:
    desk = clients.Desk.at(folder)
    stories.begin(desk.project)
    desk.more["TAKEBACK_HOME"] = str(folder / "state")
    work = [
        stories.turn(scenes.write(agent, desk.project, "made.txt", "made")),
        stories.turn(scenes.shell(agent, "rm old.txt")),
    ]
    return desk, {"work": work}


@pytest.mark.parametrize("agent, way", [*CASES, *LONG], ids=lambda part: getattr(part, "__name__", part))
def test_the_client_goes_on(agent: str, way: Callable[[Installation], None], tmp_path: Path) -> None:
    desk, script = at(tmp_path, agent)
    made = Installation(tmp_path / "installed")
    place = apply.place(agent, project=desk.project, home=desk.home, user=agent in USER_LEVEL)
    apply.installing(agent, place, made.command(agent)).make()
    way(made)
    with clients.model(tmp_path, script) as model:
        done = getattr(clients, agent.replace("-", "_"))(model, desk, "[scene work] go")
        heard = "\n".join(json.dumps(request["body"]) for request in model.requests())
    assert (desk.project / "made.txt").read_text() == "made\n"
    assert not (desk.project / "old.txt").exists()
    assert "knock.py" not in heard and "Takeback" not in heard, "the model has nothing to do with it"
    assert "blocked" not in done.stdout + done.stderr


def test_claude_code_shows_it_once(tmp_path: Path) -> None:
    desk, script = at(tmp_path, "claude-code")
    made = Installation(tmp_path / "installed")
    place = apply.place("claude-code", project=desk.project, home=desk.home, user=False)
    apply.installing("claude-code", place, made.command("claude-code")).make()
    made.package_goes()
    events = ("--output-format", "stream-json", "--verbose", "--include-hook-events")
    with clients.model(tmp_path, script) as model:
        said = clients.claude_code(model, desk, "[scene work] go", *events).stdout
    assert not (desk.project / "old.txt").exists()
    told = [json.loads(line) for line in said.splitlines()]
    hooks = [one for one in told if one.get("subtype") == "hook_response"]
    assert len(hooks) >= 7 and {(one["outcome"], one["stderr"]) for one in hooks} == {("success", "")}
    (first,) = [one for one in hooks if one["stdout"]]
    assert first["hook_name"] == "SessionStart:startup"
    assert json.loads(first["stdout"]) == {"systemMessage": failing_open.GONE}


def test_a_program_that_hangs_does_not_hold_opencode_up(tmp_path: Path) -> None:
    """The other clients end a hook that takes too long by themselves."""
    desk, script = at(tmp_path, "opencode")
    place = apply.place("opencode", project=desk.project, home=desk.home, user=False)
    apply.installing("opencode", place, "sleep 600").make()
    place.write_text(place.read_text().replace("const WAIT_MS = 60_000", "const WAIT_MS = 300"))
    with clients.model(tmp_path, script) as model:
        clients.opencode(model, desk, "[scene work] go")
    assert (desk.project / "made.txt").read_text() == "made\n"
    assert not (desk.project / "old.txt").exists()


@pytest.mark.parametrize(
    "remains", ["nothing", "a script without its Python", "a script without its package"]
)
def test_the_plugin_goes_on_too(remains: str, tmp_path: Path) -> None:
    desk, script = at(tmp_path, "claude-code")
    program = tmp_path / "bin/takeback-hook"
    program.parent.mkdir()
    if remains != "nothing":
        first = "/nonexistent/python3" if "Python" in remains else os.path.realpath("/usr/bin/env")
        program.write_text(f"#!{first} false\n")
        program.chmod(0o755)
    desk.more["PATH"] = f"{program.parent}:{os.defpath}"
    plugin = ROOT / "plugins/takeback"
    for event in ("UserPromptSubmit", "PreToolUse"):
        done = subprocess.run(
            [plugin / "hooks/tell.sh", event], input="{}", capture_output=True, text=True, env=desk.more
        )
        assert (done.returncode, done.stdout) == (0, "")
    if remains == "nothing":
        with clients.model(tmp_path, script) as model:
            clients.claude_code(model, desk, "[scene work] go", "--plugin-dir", str(plugin))
        assert not (desk.project / "old.txt").exists()
