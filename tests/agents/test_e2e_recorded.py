"""Clients that cannot be had here: their recorded events go through the very command that is in their settings."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from . import recording, scenes
from .protection import Protected, protected
from .test_e2e_gate import nothing_was_pushed, seen, with_remote

pytestmark = pytest.mark.timeout(300)

RECORDS = {"cursor": "cursor", "ruflo": "claude_code"}
BEFORE = {"cursor": "preToolUse", "ruflo": "PreToolUse"}
AFTER = {"cursor": "postToolUse", "ruflo": "PostToolUse"}


def here(project: Protected, entry: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """A recorded event as it would be in this project."""
    text = json.dumps(entry).replace("/home/you/project", str(project.project))
    again = json.loads(text)
    return again["stdin"], again["env"]


def does(project: Protected, given: dict[str, Any]) -> None:
    """What the tool of an event does. What was refused while it was recorded does nothing."""
    args = given.get("tool_input", {})
    command = args.get("command", "")
    if "forbidden" in command:
        return
    if command and "until" not in command:
        subprocess.run(["sh", "-c", command], cwd=given.get("cwd") or project.project, capture_output=True)
    elif given["tool_name"] == "Write":
        (project.project / args["file_path"]).write_text(args["content"])
    elif given["tool_name"] == "Edit":
        path = project.project / args["file_path"]
        path.write_text(path.read_text().replace(args["old_string"], args["new_string"]))


@pytest.mark.parametrize("agent", RECORDS)
def test_a_recorded_session_is_taken_back(agent: str, tmp_path: Path) -> None:
    with protected(tmp_path, agent) as project:
        before = project.look()
        hooks = json.loads(project.settings.read_text())["hooks"]
        for entry in recording.recorded(RECORDS[agent]):
            given, env = here(project, entry)
            event = given["hook_event_name"]
            if event in hooks:
                done = project.tell(event, given, env)
                assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), (given, done)
            if event == BEFORE[agent]:
                does(project, given)
        assert not (project.project / "old.txt").exists()
        assert (project.project / "notes.md").exists()
        project.undo(*[entry["id"] for entry in project.entries() if entry["kind"] == "run"])
        assert project.changes_since(before) == []


def shell_events(project: Protected, command: str) -> list[dict[str, Any]]:
    """What is told before a command: one event, or two."""
    found = []
    for entry in recording.recorded(RECORDS[project.agent]):
        given, _ = here(project, entry)
        is_shell = given.get("tool_name") in ("Bash", "Shell")
        if given["hook_event_name"] == BEFORE[project.agent] and is_shell:
            found.append(
                given | {"tool_input": given["tool_input"] | {"command": command}, "tool_use_id": "push"}
            )
        elif given["hook_event_name"] == "beforeShellExecution":
            found.append(given | {"command": command})
    kinds = {given["hook_event_name"]: given for given in found}
    return list(kinds.values())


def decision(answer: str) -> str:
    """allow, ask or deny, in whichever dialect."""
    said = json.loads(answer or "{}")
    own = said.get("hookSpecificOutput", {}).get("permissionDecision")
    return str(own or said.get("permission", "allow"))


@pytest.mark.parametrize("agent", RECORDS)
@pytest.mark.parametrize("autopilot", [True, False])
def test_what_no_undo_reaches_is_held(agent: str, autopilot: bool, tmp_path: Path) -> None:
    with protected(tmp_path, agent) as project:
        remote = with_remote(project, autopilot=autopilot)
        before = seen(remote)
        said = []
        for given in shell_events(project, scenes.PUSH):
            done = project.tell(given["hook_event_name"], given)
            assert done.returncode == 0, done
            said.append(decision(done.stdout))
        if autopilot:
            assert said[0] == "deny"
        else:
            assert "ask" in said or "deny" in said, said
        # The client does not run it. Then it does something else.
        given = shell_events(project, "echo published > published.txt")[0] | {"tool_use_id": "after"}
        project.tell(given["hook_event_name"], given)
        does(project, given)
        project.tell(AFTER[agent], given | {"hook_event_name": AFTER[agent], "tool_response": {}})
        ends = next(
            e for e in recording.recorded(RECORDS[agent]) if e["stdin"]["hook_event_name"].lower() == "stop"
        )
        given, _ = here(project, ends)
        project.tell(given["hook_event_name"], given)
        nothing_was_pushed(project, remote, before)
