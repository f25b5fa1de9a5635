"""The hook program on recorded events: each agent's calls become actions, whatever is missing, doubled or odd."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from takeback.agents import hook, once
from takeback.agents.dialects import dialect
from takeback.agents.event import SILENT, Event, Kind
from takeback.errors import ConflictError
from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace
from tests.world.picture import Entry, picture

from . import recording, stories

RECORDS = {
    "claude-code": "claude_code",
    "codex": "codex",
    "cursor": "cursor",
    "gemini": "gemini",
    "opencode": "opencode",
    "ruflo": "claude_code",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    stories.begin(made)
    return made


@pytest.fixture
def opened(project: Path) -> Iterator[Workspace]:
    with open_workspace(project, watching=False) as tb:
        yield tb


def here(entry: Any, project: Path) -> tuple[bytes, dict[str, str]]:
    """A recorded event as it would be in this project."""
    text = json.dumps(entry).replace("/home/you/project", str(project))
    again = json.loads(text)
    return json.dumps(again["stdin"]).encode(), again["env"]


def do(event: Event, project: Path) -> None:
    """What the tool of an event does. What would wait for somebody is only begun.

    What was refused while it was recorded, or did not apply, does nothing: its end was never told.
    """
    if "forbidden" in event.command or any(path.endswith("/missing.py") for path in event.paths):
        return
    if event.command and "until" not in event.command:
        subprocess.run(["sh", "-c", event.command], cwd=event.cwd or project, capture_output=True)
    for path in event.paths if not event.command else ():
        if Path(path).parent.exists() and "read" not in event.tool.lower():
            with Path(path).open("a") as file:
                file.write("edited\n")


def replay(agent: str, project: Path, *, ends: bool = True, twice: bool = False) -> None:
    for entry in recording.recorded(RECORDS[agent]):
        data, env = here(entry, project)
        event = dialect(agent).read(data, env)
        if event.kind in (Kind.END, Kind.FAILED) and not ends:
            continue
        for _ in range(1 + twice):
            assert hook.handle(agent, data, env) == SILENT
        if event.kind is Kind.BEGIN:
            do(event, project)


def calls(opened: Workspace) -> list[str]:
    return [action.name for action in opened.history.actions.values() if action.is_tool]


@pytest.mark.parametrize("agent", RECORDS)
def test_what_an_agent_did_is_taken_back(agent: str, project: Path, opened: Workspace) -> None:
    before = picture(os.fsencode(project))
    replay(agent, project)
    assert not (project / "old.txt").exists()
    assert picture(os.fsencode(project)) != before
    assert opened.undo(*opened.history.runs).verdict == "clean"
    assert picture(os.fsencode(project)) == before


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_ends_that_are_never_told(agent: str, project: Path, opened: Workspace) -> None:
    before = picture(os.fsencode(project))
    replay(agent, project, ends=False)
    assert not opened.history.open_actions(), "the end of the session is the end of its calls"
    # Since when each was over nobody knows, so a human decides.
    with pytest.raises(ConflictError, match="in doubt who changed it"):
        opened.undo(*opened.history.runs)
    opened.undo(*opened.history.runs, on_conflict="overwrite")
    assert _timeless(project) == {path: entry._replace(mtime_ns=0) for path, entry in before.items()}


def _timeless(project: Path) -> dict[bytes, Entry]:
    """A folder's time is put back only by whoever is known to have changed it."""
    return {path: entry._replace(mtime_ns=0) for path, entry in picture(os.fsencode(project)).items()}


def test_events_that_are_told_twice_count_once(project: Path, opened: Workspace) -> None:
    replay("claude-code", project)
    once = calls(opened)
    with open_workspace(project, watching=False):
        replay("codex", project, twice=True)
    doubled = calls(opened)[len(once) :]
    begun = [e for e in _events("codex", project) if e.kind is Kind.BEGIN]
    assert doubled == [event.tool for event in begun]


def _events(agent: str, project: Path) -> list[Event]:
    return [dialect(agent).read(*here(entry, project)) for entry in recording.recorded(RECORDS[agent])]


def test_a_session_without_calls_does_nothing(project: Path, opened: Workspace) -> None:
    for event in (
        "SessionStart",
        "UserPromptSubmit",
        "PostToolUse",
        "Stop",
        "SubagentStop",
        "SessionEnd",
        "Stop",
    ):
        given = {"hook_event_name": event, "session_id": "s", "cwd": str(project)}
        given |= {"tool_name": "Bash", "tool_use_id": "t"}
        assert hook.handle("claude-code", json.dumps(given).encode(), {}) == SILENT
    assert not opened.history.actions
    assert not opened.history.open_runs()


def test_calls_that_are_alike_are_each_recorded(project: Path, opened: Workspace) -> None:
    given = {"session_id": "s", "cwd": str(project), "tool_name": "run_shell_command"}
    given |= {"tool_input": {"command": "date >> log.txt"}}  # type: ignore[dict-item]
    for number in range(3):
        hook.handle("gemini", json.dumps(given | {"hook_event_name": "BeforeTool"}).encode(), {})
        (project / "log.txt").write_text(f"{number}\n")
        hook.handle("gemini", json.dumps(given | {"hook_event_name": "AfterTool"}).encode(), {})
    assert calls(opened) == ["run_shell_command"] * 3
    opened.undo()
    assert (project / "log.txt").read_text() == "1\n"


def test_a_call_that_cannot_be_protected_is_refused_with_a_reason(project: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.write_text("no folder")
    (begun, *_) = [
        here(entry, project)
        for entry in recording.recorded("claude_code")
        if entry["stdin"]["hook_event_name"] == "PreToolUse"
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TAKEBACK_HOME", str(state))
        refused = json.loads(hook.handle("claude-code", *begun).stdout)
        stopped = hook.handle("claude-code", begun[0].replace(b"PreToolUse", b"Stop"), begun[1])
    assert refused["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert "Takeback cannot protect this" in refused["hookSpecificOutput"]["permissionDecisionReason"]
    # To refuse the end of a prompt would have the agent go on for ever.
    assert stopped.code == 0
    assert list(json.loads(stopped.stdout)) == ["systemMessage"]


def test_what_cannot_be_read_is_told(project: Path) -> None:
    said = json.loads(hook.handle("claude-code", b"{}", {}).stdout)
    assert "not protected" in said["systemMessage"]


def test_wrong_use_is_no_refusal(capfd: pytest.CaptureFixture[str]) -> None:
    assert once.main([]) == 1
    assert "usage: takeback-hook AGENT" in capfd.readouterr().err
