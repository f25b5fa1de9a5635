"""Every tool is judged as a shell is: an editor that writes to a device is held like a redirection to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from takeback.workspace.workspace import Workspace

from .driving import Agent, asks, refusal

AUTOPILOT = "[agents]\nautopilot = true\n"


@pytest.fixture
def client(desk: Path, tb: Workspace) -> Agent:
    (desk / "takeback.toml").write_text(AUTOPILOT)
    made = Agent("claude-code", desk)
    made.prompt("go", "p1")
    return made


def held(client: Agent, tool: str, args: dict[str, Any]) -> str:
    client.calls += 1
    return refusal(client.pre(tool, args, f"held-{client.calls}"))


ABOVE_HOME = "~/" + "../" * 40
"""The root, wherever the home of whoever runs this lies."""


@pytest.mark.parametrize(
    "path",
    [
        "/dev/sda",
        "/proc/sys/kernel/hostname",
        "/sys/power/state",
        pytest.param(f"{ABOVE_HOME}proc/1/mem", id="~/../proc/1/mem"),
    ],
)
def test_an_editor_that_writes_to_the_machine_is_held_as_a_redirection_is(path: str, client: Agent) -> None:
    assert held(client, "Bash", {"command": f"echo x > {path}"})
    for tool in ("Write", "Edit", "NotebookEdit"):
        name = "notebook_path" if tool == "NotebookEdit" else "file_path"
        said = held(client, tool, {name: path, "content": "x"})
        assert f"{tool} is irreversible" in said and "on autopilot there is no human to ask" in said
    assert not held(client, "Write", {"file_path": "/dev/null", "content": "x"})


def test_our_own_journal_is_held_from_every_tool(client: Agent, tb: Workspace) -> None:
    journal = tb.state / "journal.db"
    assert journal.exists()
    before = journal.stat()
    calls: dict[str, dict[str, Any]] = {
        "Bash": {"command": f"echo x > {journal}"},
        "Write": {"file_path": str(journal), "content": ""},
        "mcp__files__write_file": {"path": str(journal), "content": ""},
        "mcp__files__move_file": {"source": "a", "destination": str(journal)},
        "mcp__files__rename": {"from": str(journal), "to": "x"},
        "mcp__files__link": {"target": str(journal), "name": "x"},
        "mcp__files__put": {"uri": f"file://{journal}", "text": ""},
        "mcp__files__delete_directory": {"path": str(tb.state)},
        "mcp__files__edit": {"edits": [{"filePath": str(journal)}]},
        "mcp__files__save": {"fileName": str(journal)},
        "mcp__files__load": {"uri": f"file:{journal}"},
        "mcp__files__out": {"out": str(journal)},
        "mcp__files__resource": {"resource": f"file://{journal}"},
        "mcp__files__many": {"files": {str(journal): "text"}},
        "mcp__files__each": {"files": [{"name": str(journal), "text": ""}]},
    }
    for tool, args in calls.items():
        assert "Takeback keeps its own state there" in held(client, tool, args), tool
    assert journal.stat().st_mtime_ns == before.st_mtime_ns


def test_with_a_human_there_it_is_asked(desk: Path, tb: Workspace) -> None:
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    assert asks(client.pre("Write", {"file_path": "/dev/sda", "content": "x"}, "c1"))
    assert not asks(client.pre("Write", {"file_path": str(desk / "a"), "content": "x"}, "c2"))


def test_a_patch_to_our_own_journal_is_held(desk: Path, tb: Workspace) -> None:
    (desk / "takeback.toml").write_text(AUTOPILOT)
    client = Agent("codex", desk)
    client.prompt("go", "p1")
    patch = f"*** Begin Patch\n*** Delete File: {tb.state}/journal.db\n*** End Patch\n"
    assert "Takeback keeps its own state there" in held(client, "apply_patch", {"command": patch})


@pytest.mark.parametrize(
    "args",
    [
        {"command": "git push"},
        {"commands": ["ls", "git push origin main"]},
        {"steps": [{"cmd": "ls"}, {"cmd": "git push"}]},
        {"argv": ["git", "push"]},
        {"command": "git", "arguments": ["push"]},
        {"program": "git", "args": ["push"]},
        {"cmd": {"program": "git", "args": ["push"]}},
        {"commands": {"first": "ls", "then": "git push"}},
        {"commandLine": "git push"},
        {"cmdline": "git push"},
        {"execute": "git push"},
        {"query": "-- once more\n/* and */ DELETE FROM users"},
        {"queries": ["select 1", "TRUNCATE users"]},
        {"sql": "DROP TABLE users"},
        {"sql": "-- a comment\nDROP TABLE users"},
        {"query": "delete from users"},
        {"statements": ["select 1", "UPDATE users SET a = 1"]},
        {"target": "/dev/sda"},
        {"uri": "file:///proc/sysrq-trigger"},
        {"paths": ["a", "/dev/mem"]},
    ],
)
def test_what_others_bring_along_is_read_by_the_names_of_its_arguments(
    args: dict[str, Any], client: Agent
) -> None:
    assert held(client, "mcp__server__do", args)


@pytest.mark.parametrize(
    "args",
    [
        {"commands": ["ls", "git status"]},
        {"sql": "SELECT * FROM users"},
        {"query": "how to drop a table"},
        {"url": "https://example.org/dev/sda"},
        {"path": "src", "target": "production", "to": "someone@example.org"},
        {"source": "/etc/hostname"},
        {"content": "git push", "text": "DROP TABLE users"},
        {"program": "news", "name": "git push", "resource": "users/1", "arguments": {"text": "git push"}},
        {"query": "-- what does DELETE FROM mean"},
    ],
)
def test_what_only_reads_or_says_something_is_not_held(args: dict[str, Any], client: Agent) -> None:
    assert not held(client, "mcp__server__do", args)


def test_what_a_tool_of_others_names_outside_comes_back(desk: Path, tb: Workspace) -> None:
    other = desk.parent / "other"
    other.mkdir()
    (other / "a").write_text("a\n")
    client = Agent("claude-code", desk)
    client.prompt("go", "p1")
    args = {"source": str(other / "a"), "destination": str(other / "b")}
    assert not refusal(client.pre("mcp__files__move_file", args, "c1"))
    (other / "a").rename(other / "b")
    client.post("mcp__files__move_file", args, "c1")
    client.stop()
    tb.undo()
    assert [(path.name, path.read_text()) for path in other.iterdir()] == [("a", "a\n")]
