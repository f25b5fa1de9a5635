"""`takeback try -- claude …`: a whole session of the client in a private view, with its hooks at work inside."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace

from . import clients, installing, scenes
from .protection import Protected, protected

pytestmark = pytest.mark.timeout(900)  # the first time, hundreds of megabytes are fetched


def under(*flags: str) -> tuple[str, ...]:
    python = (sys.executable, "-P", "-m", "takeback", "try", *flags, "--")
    return ("env", f"PYTHONPATH={installing.ROOT / 'src'}", *python)


def played(project: Protected, folder: Path, *flags: str) -> None:
    with clients.model(folder, scenes.of("claude-code", project.project, folder)) as model:
        clients.claude_code(model, project.desk, "[scene work] go", under=under(*flags))


def calls(inner: Workspace) -> list[str]:
    """Return what single calls of the agent wrote in the view."""
    tools = [action for action in inner.history.actions.values() if action.is_tool and not action.is_own]
    inside = [action for action in tools if inner.history.runs[action.stream].began.detached]
    return sorted({str(change.target) for action in inside for change in action.changes})


def test_a_session_in_a_view_is_recorded_call_by_call_and_accepted(tmp_path: Path) -> None:
    with protected(tmp_path, "claude-code") as project:
        before = project.look()
        played(project, tmp_path, "--keep")
        assert project.changes_since(before) == [], "nothing outside the view has changed"
        with open_workspace(project.project, home=project.world.home, watching=False) as opened:
            stage = opened.stages["t1"]
            written = stage.inside(calls, list[str])
            assert {"notes.md", "app.py", "old.txt", "draft.txt", "kept/final.txt"} <= set(written)
            whole = {str(change.target) for change in stage.changes()}
            # The last call is taken back inside, and comes again.
            assert stage.inside(lambda inner: str(inner.undo().verdict), str) in ("clean", "unknown")
            assert {str(change.target) for change in stage.changes()} != whole
            stage.inside(lambda inner: str(inner.redo().verdict), str)
            assert {str(change.target) for change in stage.changes()} == whole
            stage.accept().require_complete()
        assert not (project.project / "old.txt").exists()
        assert (project.project / "kept" / "final.txt").exists()
        project.undo()
        assert project.changes_since(before) == []


def test_a_session_in_a_view_is_dropped(tmp_path: Path) -> None:
    with protected(tmp_path, "claude-code") as project:
        before = project.look()
        played(project, tmp_path, "--drop")
        assert project.changes_since(before) == []
        with open_workspace(project.project, home=project.world.home, watching=False) as opened:
            assert opened.stages.names() == []
