"""Commands that go on in the background of a real client: whose work it was is not guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import clients, scenes
from .conversations import conversation
from .protection import protected

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
