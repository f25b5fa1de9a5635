"""Commands that go on in the background of a real client: whose work it was is not guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.processes import wait_for

from . import clients, scenes, stories
from .conversations import conversation
from .protection import apart_from_times, protected

pytestmark = pytest.mark.timeout(900)  # the first time, hundreds of megabytes are fetched


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_what_happened_beside_a_command_in_the_background_is_not_guessed(agent: str, tmp_path: Path) -> None:
    with protected(tmp_path, agent) as project:
        before = project.look()
        script = scenes.of(agent, project.project, tmp_path)
        with (
            clients.model(tmp_path, script) as model,
            conversation(agent, model, project.desk) as client,
        ):
            client.say("[scene more] go")
        after = project.look()
        assert {b"late.txt", b"meanwhile.txt"} <= set(after)
        # It is of one of two calls, so neither is taken back alone.
        refused = project.takeback("undo", "--json", code=3)
        assert "late.txt" in refused.said and "while both were running" in refused.said
        assert project.changes_since(after) == []
        # With both there is nothing to guess.
        (run,) = [entry["id"] for entry in project.entries() if entry["kind"] == "run"]
        project.undo(run)
        assert project.changes_since(before) == []


LATER = "until [ -e {go} ]; do sleep 0.02; done; rm -r {what}"
"""What a command does when it has ended long since, as far as the client knows."""


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_what_a_command_left_behind_is_taken_back(agent: str, tmp_path: Path) -> None:
    with protected(tmp_path, agent) as project:
        before = project.look()
        go = tmp_path / "go"
        job = LATER.format(go=go, what=project.project / "data")
        apart = LATER.format(go=go, what=project.project / "app.py")
        script = scenes.of(agent, project.project, tmp_path) | {
            "leave": [
                stories.turn(scenes.shell(agent, f"({job}) > /dev/null 2>&1 &")),
                stories.turn(
                    scenes.shell(agent, f"env -i setsid sh -c '{apart}' < /dev/null > /dev/null 2>&1 &")
                ),
            ]
        }
        with (
            clients.model(tmp_path, script) as model,
            conversation(agent, model, project.desk) as client,
        ):
            client.say("[scene leave] go")
            busy = project.takeback("undo", code=3)
            assert "still has processes running" in busy.stderr and "kill" in busy.stderr
            go.touch()
            wait_for(lambda: "still running" not in project.takeback("status").stdout)
            assert not (project.project / "app.py").exists()
            # Codex ends the jobs of a shell with it.
            assert (project.project / "data").exists() == (agent == "codex")
            assert "outside" not in {entry["kind"] for entry in project.entries()}
            (run,) = [entry["id"] for entry in project.entries() if entry["kind"] == "run"]
            project.undo(run)
            assert apart_from_times(before, project.look()) == []
