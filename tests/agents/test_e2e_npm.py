"""Gemini CLI and opencode in every run, with one prompt each: they are slow. test_e2e_sessions.py has more."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import clients, scenes, stories
from .protection import apart_from_times, protected
from .test_e2e_gate import heard, seen, with_remote

pytestmark = pytest.mark.timeout(900)  # the first time, hundreds of megabytes are fetched

# What opencode itself puts beside its plugins and into the repository is no tool's work, and stays.
OWN = ("'.opencode/.gitignore'", "'.opencode'", "'.git/")


@pytest.mark.parametrize("agent", ["gemini", "opencode"])
def test_a_session_is_taken_back_and_what_cannot_be_is_held(agent: str, tmp_path: Path) -> None:
    with protected(tmp_path, agent) as project:
        remote = with_remote(project, autopilot=False)
        begin, elsewhere = project.look(), seen(remote)
        script = scenes.of(agent, project.project, tmp_path)
        turns = [stories.turn(scenes.shell(agent, scenes.PUSH)), *script["work"]]
        with clients.model(tmp_path, {"work": turns}, watched=project.project) as model:
            getattr(clients, agent)(model, project.desk, "[scene work] go")
        assert {name for name in stories.START if not (project.project / name).exists()} == {
            "old.txt",
            "draft.txt",
        }
        # The push was refused, the agent was told how a human can allow it, and it went on.
        assert seen(remote) == elsewhere
        (question,) = project.takeback("approvals", "--json").json["approvals"]
        assert f"takeback approve {question['id']}" in heard(model)
        # The last call, then all.
        project.undo()
        assert project.changes_since(model.seen("work", len(turns) - 1)) == []
        (run,) = [entry["id"] for entry in project.entries() if entry["kind"] == "run"]
        project.undo(run)
        left = apart_from_times(begin, project.look())
        assert [line for line in left if not line.startswith(OWN)] == []
