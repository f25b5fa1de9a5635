"""`takeback run -- claude …`: the client as one command, with its hooks and without them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from takeback.workspace.opening import open_workspace

from . import clients, installing, scenes
from .protection import Protected, protected

pytestmark = pytest.mark.timeout(900)  # the first time, hundreds of megabytes are fetched

UNDER = ("env", f"PYTHONPATH={installing.ROOT / 'src'}", sys.executable, "-P", "-m", "takeback", "run", "--")


def played(project: Protected, folder: Path) -> None:
    with clients.model(folder, scenes.of("claude-code", project.project, folder)) as model:
        clients.claude_code(model, project.desk, "[scene work] go", under=UNDER)
    assert not (project.project / "old.txt").exists()


def test_its_calls_are_inside_the_command_and_each_can_be_taken_back(tmp_path: Path) -> None:
    with protected(tmp_path, "claude-code") as project:
        before = project.look()
        played(project, tmp_path)
        after = project.look()
        with open_workspace(project.project, home=project.world.home, watching=False) as opened:
            recorded = opened.history.actions.values()
            tools = [action for action in recorded if action.is_tool and not action.is_own]
            changes = [change for action in tools for change in action.changes]
        assert not any(change.shared_with or change.in_doubt for change in changes), "nobody is beside them"
        (command,) = [action for action in tools if "claude" in action.name and action.name != "Bash"]
        written = {
            str(change.target) for action in tools if action is not command for change in action.changes
        }
        assert {"notes.md", "app.py", "old.txt", "draft.txt", "kept/final.txt"} <= written
        # The last call, forward again, and the whole.
        project.undo()
        assert project.changes_since(after) != []
        project.takeback("redo")
        assert project.changes_since(after) == []
        project.undo(command.id)
        assert project.changes_since(before) == []


def test_without_hooks_the_whole_command_is_taken_back(tmp_path: Path) -> None:
    with protected(tmp_path, "claude-code") as project:
        project.settings.unlink()
        before = project.look()
        played(project, tmp_path)
        project.undo()
        assert project.changes_since(before) == []
