"""`takeback doctor`: the very command in an agent's settings is tried; what is wrong is said, and how to mend it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from takeback.agents import settings
from takeback.agents.doctor import trust
from takeback.agents.settings import apply
from takeback.daemon.hook_command import hook_command
from tests.cli.processes import bound, wait_for
from tests.world.cli import Result, Workspace, environment

from . import installing

AGENTS = [agent for agent in settings.LAYOUTS if agent != "ruflo"]


class Desk(Workspace):
    """A project, a home, and a folder for temporary files."""

    @property
    def user(self) -> Path:
        return self.root.parent / "user"

    @property
    def scratch(self) -> Path:
        return self.root.parent / "scratch"

    @property
    def surroundings(self) -> dict[str, str]:
        # The clients of whoever runs the tests are not asked.
        return {"HOME": str(self.user), "TMPDIR": str(self.scratch), "PATH": os.defpath}

    def run(self, *args: str, env: Mapping[str, str] | None = None, umask: int = -1) -> Result:
        return super().run(*args, env=self.surroundings | dict(env or {}), umask=umask)

    def settings(self, agent: str) -> Path:
        return self.root / settings.layout(agent).project

    def doctor(self, *words: str, code: int = 0, env: Mapping[str, str] | None = None) -> dict[str, Any]:
        done = self.run("doctor", "--json", *words, env=env)
        assert done.code == code, done
        return dict(done.json)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path / "work", tmp_path / "state")
    for folder in (made.root, made.user, made.scratch):
        folder.mkdir()
    made.human("plan.md", "old\n")
    return made


def found(report: Mapping[str, Any], state: str = "problem") -> dict[str, str]:
    """What was found to be so, by what was looked at, with the way to mend it."""
    every = [*report["machine"], *(finding for agent in report["agents"] for finding in agent["findings"])]
    return {one["check"]: f"{one['said']} | {one['fix']}" for one in every if one["state"] == state}


def listed(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if "daemon" not in path.name)


@pytest.mark.parametrize("agent", AGENTS)
def test_each_agent_is_proved_and_nothing_is_left_behind(agent: str, desk: Desk) -> None:
    desk.do("install", agent)
    state = listed(desk.home)
    report = desk.doctor(agent)
    well = found(report, "ok")
    assert "taken back" in well["trial"] and "complete in" in well["hooks"], report
    assert report["protected"] and found(report) == {}
    assert list(desk.scratch.iterdir()) == []
    assert listed(desk.home) == state, "no workspace was registered"


def test_all_that_are_installed_are_looked_at(desk: Desk) -> None:
    desk.do("install", "claude-code")
    desk.do("install", "cursor", "--user")
    done = desk.run("doctor")
    assert done.code == 0, done
    assert [line for line in done.stdout.splitlines() if not line.startswith(" ")] == [
        "Claude Code",
        "Cursor",
        "This machine",
    ]
    assert "ms for each event" in done.stdout


def test_none_is_installed(desk: Desk) -> None:
    assert "takeback install" in found(desk.doctor(code=3))["agents"]
    assert "not installed here" in found(desk.doctor("codex", code=3))["hooks"]


def test_a_command_that_is_gone(desk: Desk) -> None:
    path = desk.settings("claude-code")
    apply.installing("claude-code", path, "/nonexistent/takeback-hook claude-code").make()
    report = desk.doctor("claude-code", code=4)
    assert "/nonexistent/takeback-hook is gone" in found(report)["trial"]
    assert "takeback install claude-code" in found(report)["trial"]
    assert list(desk.scratch.iterdir()) == []
    desk.do("install", "claude-code")
    assert desk.doctor("claude-code")["protected"]


@pytest.mark.parametrize("agent", ["claude-code", "opencode"])
def test_hooks_of_an_older_version(agent: str, desk: Desk) -> None:
    desk.do("install", agent)
    path = desk.settings(agent)
    ours = path.read_text()
    if agent == "opencode":
        path.write_text(ours.replace("let warned = false", "let warned = true"))
    else:
        value = json.loads(ours)
        for (group,) in value["hooks"].values():
            group["hooks"][0]["command"] = hook_command(agent)
        path.write_text(json.dumps(value))
    assert "from an older version" in found(desk.doctor(agent), "warning")["hooks"]
    desk.do("install", agent)
    assert "hooks" not in found(desk.doctor(agent), "warning")


def test_a_command_that_records_nothing(desk: Desk, tmp_path: Path) -> None:
    program = tmp_path / "takeback-hook"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    apply.installing("codex", desk.settings("codex"), f"{program} codex").make()
    assert "recorded nothing" in found(desk.doctor("codex", code=4))["trial"]


@pytest.mark.parametrize("answer, why", [("echo no >&2; exit 2", "a complaint: no"), ("echo well", "well")])
def test_a_command_that_complains(answer: str, why: str, desk: Desk, tmp_path: Path) -> None:
    program = tmp_path / "takeback-hook"
    program.write_text(f"#!/bin/sh\n{answer}\n")
    program.chmod(0o755)
    apply.installing("cursor", desk.settings("cursor"), f"{program} cursor").make()
    assert why in found(desk.doctor("cursor", code=4))["trial"]


def test_settings_that_lack_something(desk: Desk) -> None:
    desk.do("install", "claude-code")
    path = desk.settings("claude-code")
    value = json.loads(path.read_text())
    del value["hooks"]["PostToolUse"]
    path.write_text(json.dumps(value))
    assert "has no hook for PostToolUse | takeback install claude-code" in found(desk.doctor(code=3))["hooks"]
    desk.do("install", "claude-code")
    own = desk.user / ".claude/settings.json"
    own.parent.mkdir()
    own.write_text('{"disableAllHooks": true}')
    assert f"{own} tells the agent to run no hooks" in found(desk.doctor(code=3))["hooks"]
    own.unlink()
    path.write_text("// mine\n" + settings.install("claude-code", "", "takeback-hook claude-code"))
    assert "comments, and the agent ignores" in found(desk.doctor(code=4))["hooks"]
    path.write_text("{ takeback")
    assert "not valid JSON at line 1" in found(desk.doctor(code=3))["hooks"]


def test_broken_settings_into_which_nothing_can_be_put(desk: Desk) -> None:
    path = desk.settings("claude-code")
    path.parent.mkdir()
    path.write_text("{ mine")
    (agent,) = desk.doctor("claude-code", code=3)["agents"]
    (finding,) = agent["findings"]
    assert (finding["state"], finding["said"]) == ("problem", f"{path}: not valid JSON at line 1")
    assert finding["fix"] == "fix it by hand, then takeback install claude-code"


def test_settings_of_others_that_are_broken_do_not_hide_that_all_is_well(desk: Desk) -> None:
    own = desk.user / ".claude/settings.json"
    own.parent.mkdir()
    own.write_text("{")
    assert "no agent is protected" in found(desk.doctor(code=3))["agents"]
    desk.do("install", "claude-code")
    report = desk.doctor("claude-code")
    assert f"{own}: not valid JSON at line 1" in found(report, "warning")["hooks"]
    assert "taken back" in found(report, "ok")["trial"]


def test_what_else_runs_is_told(desk: Desk) -> None:
    path = desk.settings("cursor")
    path.parent.mkdir()
    path.write_text('{"version": 1, "hooks": {"stop": [{"command": "say done"}]}}')
    desk.do("install", "cursor")
    desk.do("install", "cursor", "--user")
    report = desk.doctor("cursor")
    assert "say done" in found(report, "ok")["others"]
    assert "more than once" in found(report, "warning")["hooks"]


def test_a_plugin_is_seen_and_tried(desk: Desk, tmp_path: Path) -> None:
    own = desk.user / ".claude/settings.json"
    own.parent.mkdir()
    own.write_text('{"enabledPlugins": {"takeback@takeback": true}}')
    assert "takeback-hook on the PATH" in found(desk.doctor(code=4))["trial"]
    program = tmp_path / "bin/takeback-hook"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nexec {hook_command('claude-code')}\n")
    program.chmod(0o755)
    report = desk.doctor(env={"PATH": f"{program.parent}:{os.defpath}"})
    assert found(report, "ok")["hooks"].startswith("complete in the plugin")


def test_hooks_that_an_action_took_out(desk: Desk) -> None:
    desk.do("install", "claude-code")
    desk.agent("rm .claude/settings.local.json")
    report = desk.doctor("claude-code", code=3)
    assert any("were removed by" in one["said"] for one in report["machine"])


def test_state_that_cannot_be_written(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(desk.user))
    desk.home.mkdir()
    desk.home.chmod(0o500)
    try:
        done = bound(desk, "doctor", "--json", code=4)
    finally:
        desk.home.chmod(0o700)
    assert "cannot be written" in done.stdout


def test_a_doctor_that_is_killed_leaves_nothing(desk: Desk) -> None:
    desk.do("install", "claude-code")
    state = listed(desk.home)
    process = subprocess.Popen(
        [sys.executable, "-m", "takeback", "doctor"],
        cwd=desk.root,
        env=environment(desk.home) | desk.surroundings,
        stdout=subprocess.DEVNULL,
    )
    wait_for(lambda: list(desk.scratch.rglob("made.txt")))  # its trial is under way
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: not list(desk.scratch.iterdir()))
    assert listed(desk.home) == state


# --- Trust ---


@pytest.mark.timeout(900)  # the first time, hundreds of megabytes are fetched
def test_hooks_that_codex_does_not_trust(desk: Desk) -> None:
    desk.do("install", "codex", "--user")
    program = installing.wheel_clients() / "codex_cli_bin/bin/codex"
    path = {"PATH": f"{program.parent}:{os.defpath}"}
    report = desk.doctor("codex", code=3, env=path)
    assert "untrusted, so Codex skips them | start `codex`" in found(report)["trust"]
    assert "codex-cli" in found(report, "ok")["agent"]
    _trust_all(program, desk)
    assert "Codex trusts all 8 hooks" in found(desk.doctor("codex", env=path), "ok")["trust"]
    desk.do("install", "codex")  # of the project, which Codex does not know
    desk.do("uninstall", "codex", "--user")
    assert "does not read these hooks" in found(desk.doctor("codex", code=3, env=path))["trust"]


def _trust_all(program: Path, desk: Desk) -> None:
    """What a human does with /hooks."""
    with subprocess.Popen(
        [program, "app-server"],
        cwd=desk.root,
        env=desk.surroundings,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:

        def ask(number: int, method: str, **given: Any) -> Any:
            asked = [{"id": number, "method": method, "params": given}]
            answer = trust._answer(server, asked)
            assert answer is not None, method
            return answer

        ask(1, "initialize", clientInfo={"name": "human", "version": "1"})
        (entry,) = ask(2, "hooks/list", cwds=[str(desk.root)])["data"]
        words = {hook["key"]: {"trusted_hash": hook["currentHash"]} for hook in entry["hooks"]}
        edit = {"keyPath": "hooks.state", "value": words, "mergeStrategy": "upsert"}
        ask(3, "config/batchWrite", edits=[edit])
        server.kill()


@pytest.mark.parametrize(
    "word, state",
    [("TRUST_FOLDER", "ok"), ("TRUST_PARENT", "ok"), ("DO_NOT_TRUST", "problem"), ("", "warning")],
)
def test_folders_that_gemini_trusts(word: str, state: str, desk: Desk) -> None:
    desk.do("install", "gemini")
    place = desk.user / ".gemini/trustedFolders.json"
    place.parent.mkdir()
    named = desk.root / "below" if word == "TRUST_PARENT" else desk.root
    place.write_text(json.dumps({str(named): word}))
    (finding,) = trust.of_hooks("gemini", desk.root, desk.user, [desk.settings("gemini")])
    assert finding.state == state
    assert bool(finding.fix) == (state != "ok")
