"""Takeback as a plugin of the real Claude Code, and beside the hooks of others: each call is recorded once."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from takeback._version import __version__
from takeback.agents import settings
from takeback.daemon import control
from takeback.daemon.hook_command import hook_command
from tests.house.repository import ROOT
from tests.world.cli import Workspace

from . import clients, installing
from .stories import tool, turn

pytestmark = pytest.mark.timeout(900)  # the first time, hundreds of megabytes are fetched

PLUGIN = ROOT / "plugins/takeback"
RUFLO = Path(__file__).parent / "ruflo_hooks.json"
"""The hooks in the settings that `ruflo init` 3.42.5 makes."""


def programs(folder: Path) -> Path:
    """`takeback` and `takeback-hook` of this checkout, to be found on the PATH."""
    made = folder / "bin"
    made.mkdir()
    run = f"PYTHONPATH={ROOT / 'src'} PYTHONSAFEPATH=1 exec {shlex.quote(sys.executable)} -m takeback"
    hook = f"exec {hook_command('claude-code').removesuffix('claude-code')}"
    for name, line in (("takeback", run), ("takeback-hook", hook)):
        (made / name).write_text(f'#!/bin/sh\n{line} "$@"\n')
        (made / name).chmod(0o755)
    return made


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[clients.Desk]:
    made = clients.Desk.at(tmp_path)
    (made.project / "app.py").write_text("print('one')\n")
    path = f"{programs(tmp_path)}:{os.environ.get('PATH', os.defpath)}"
    made.more.update({"TAKEBACK_HOME": str(tmp_path / "state"), "PATH": path})
    yield made
    control.stop(tmp_path / "state")


def script(desk: clients.Desk) -> dict[str, list[dict[str, object]]]:
    write = tool("Write", file_path=str(desk.project / "notes.md"), content="plan\n")
    removal = tool("Bash", command="rm app.py", description="work")
    escape = tool("Bash", command="takeback uninstall claude-code", description="be free")
    return {"work": [turn(write), turn(removal)], "escape": [turn(escape)]}


def calls(world: Workspace) -> list[str]:
    entries = world.do("log", "--json").json["entries"]
    names = [entry["name"] for entry in reversed(entries) if entry.get("kind") == "action"]
    return [name for name in names if not name.startswith("takeback install")]


def test_the_plugin_has_the_hooks_that_installing_writes() -> None:
    hooks = json.loads((PLUGIN / "hooks/hooks.json").read_text())["hooks"]
    assert list(hooks) == list(settings.CLAUDE_CODE)
    for event, ((group,)) in hooks.items():
        (hook,) = group["hooks"]
        assert hook["command"] == f'"${{CLAUDE_PLUGIN_ROOT}}/hooks/tell.sh" {event} || true'
        assert hook["timeout"] == settings.TIMEOUT_S
    assert os.access(PLUGIN / "hooks/tell.sh", os.X_OK)
    assert json.loads((PLUGIN / ".claude-plugin/plugin.json").read_text())["version"] == __version__


@pytest.mark.parametrize(
    "event, said", [("SessionStart", True), ("UserPromptSubmit", False), ("PreToolUse", False)]
)
def test_without_the_program_the_plugin_says_that_nothing_is_protected(event: str, said: bool) -> None:
    done = subprocess.run(
        [PLUGIN / "hooks/tell.sh", event],
        input="{}",
        capture_output=True,
        text=True,
        env={"PATH": os.defpath},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert ("Nothing that is done here can be taken back" in done.stdout) == said
    assert not said or list(json.loads(done.stdout)) == ["systemMessage"]


def test_claude_code_takes_the_plugin(desk: clients.Desk, tmp_path: Path) -> None:
    program = str(installing.wheel_clients() / "claude_agent_sdk/_bundled/claude")
    with clients.model(tmp_path, {}) as model:
        for words in (
            ["validate", str(ROOT)],
            ["validate", str(PLUGIN)],
            ["marketplace", "add", str(ROOT)],
            ["install", "takeback@takeback"],
        ):
            done = desk.run(model, [program, "plugin", *words], {"DISABLE_AUTOUPDATER": "1"})
            assert "✘" not in done.stdout, done.stdout
        listed = desk.run(model, [program, "plugin", "list"], {}).stdout
    assert "takeback@takeback" in listed and "enabled" in listed
    assert settings.has_plugin((desk.home / ".claude/settings.json").read_text())


def test_with_plugin_and_settings_each_call_is_recorded_once_and_taken_back_from_inside(
    desk: clients.Desk, tmp_path: Path
) -> None:
    world = Workspace(desk.project, tmp_path / "state")
    world.do("install", "claude-code")
    with clients.model(tmp_path, script(desk)) as model:
        # The report of the undo names the prompt, by its first words: the model must not find the scene there.
        prompt = f"{'Tidy up, please, and leave alone what is not yours. ' * 2}[scene work]"
        begun = clients.claude_code(model, desk, prompt, "--plugin-dir", str(PLUGIN))
        assert not (desk.project / "app.py").exists()
        assert calls(world) == ["Write", "Bash"]
        session = json.loads(begun.stdout)["session_id"]
        options = ("--plugin-dir", str(PLUGIN), "--resume", session)
        clients.claude_code(model, desk, "/takeback undo", *options)
        told = json.dumps(model.requests()[-1]["body"]["messages"][-1])
    assert (desk.project / "app.py").read_text() == "print('one')\n"
    assert (desk.project / "notes.md").exists()
    assert "Took back rm app.py" in told and "restored   app.py" in told
    assert calls(world)[:2] == ["Write", "Bash"]


def test_an_agent_does_not_take_out_its_own_hooks(desk: clients.Desk, tmp_path: Path) -> None:
    world = Workspace(desk.project, tmp_path / "state")
    world.do("install", "claude-code")
    place = desk.project / settings.layout("claude-code").project
    before = place.read_bytes()
    with clients.model(tmp_path, script(desk)) as model:
        clients.claude_code(model, desk, "[scene escape] go")
        told = json.dumps(model.requests()[-1]["body"]["messages"][-1])
    assert "only a human can remove the hooks" in told
    assert place.read_bytes() == before


def test_beside_the_hooks_of_ruflo(desk: clients.Desk, tmp_path: Path) -> None:
    """Its helpers are stood in for by ones that write down what they are started for."""
    place, log = desk.project / ".claude", tmp_path / "ruflo.log"
    (place / "helpers").mkdir(parents=True)
    (place / "settings.json").write_bytes(RUFLO.read_bytes())
    for name in ("hook-handler.cjs", "auto-memory-hook.mjs"):
        (place / "helpers" / name).write_text("")
    node = tmp_path / "bin/node"
    node.write_text(f'#!/bin/sh\necho "${{1##*/}} $2" >> {log}\ncat > /dev/null\n')
    node.chmod(0o755)
    world = Workspace(desk.project, tmp_path / "state")
    world.do("install", "ruflo")
    assert (place / "settings.json").read_bytes() == RUFLO.read_bytes()
    with clients.model(tmp_path, script(desk)) as model:
        clients.claude_code(model, desk, "[scene work] go")
    theirs = set(log.read_text().splitlines())
    assert {"hook-handler.cjs pre-edit", "hook-handler.cjs pre-bash", "auto-memory-hook.mjs sync"} <= theirs
    assert calls(world) == ["Write", "Bash"]
    world.undo()
    assert (desk.project / "app.py").read_text() == "print('one')\n"
    world.do("uninstall", "ruflo")
    assert (place / "settings.json").read_bytes() == RUFLO.read_bytes()
    assert not (place / "settings.local.json").exists()
