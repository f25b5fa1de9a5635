"""Real clients at work, protected by what `takeback install` set up; then call, prompt and session are taken back.

The world is compared with pictures that another program took, between any two calls of the agent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.world.picture import Picture

from . import clients, scenes
from .conversations import Conversation, conversation
from .protection import Protected, apart_from_times, of_npm, protected

pytestmark = pytest.mark.timeout(900)  # the first time, hundreds of megabytes are fetched

TOLD = re.compile(r"took back|taken back")
MINE = "# the human's own line\n"


class Story(NamedTuple):
    """What differs between the clients."""

    edited: str
    """A file that the agent wrote to, and the human after it."""
    last: int
    """The turn in which the agent itself writes, after its subagent did."""


STORIES = {
    "claude-code": Story("app.py", 1),
    "codex": Story("moved.py", 2),
    "gemini": Story("app.py", 2),
    "opencode": Story("app.py", 1),
}


@pytest.mark.parametrize("agent", ["claude-code", "codex", of_npm("gemini"), of_npm("opencode")])
def test_a_session_is_taken_back_by_call_by_prompt_and_whole(agent: str, tmp_path: Path) -> None:
    with protected(tmp_path, agent) as project:
        begin = project.look()
        script = scenes.of(agent, project.project, tmp_path)
        with (
            clients.model(tmp_path, script, watched=project.project) as model,
            conversation(agent, model, project.desk) as client,
        ):
            client.say("[scene work] go")
            the_human_works(project, STORIES[agent])
            if STORIES[agent].last >= 0:
                the_last_call(project, model, client, STORIES[agent].last)
                one_prompt(project, model)
        all_of_it(project, begin, STORIES[agent])
        nothing_is_left_open(project)


def the_human_works(project: Protected, story: Story) -> None:
    """A file of their own, one that the agent had written to, and one that it will remove."""
    project.world.human("mine.txt", "mine\n")
    with (project.project / story.edited).open("a") as file:
        file.write(MINE)
    project.world.human("data/table.csv", "a,b\n3,4\n")


def the_last_call(project: Protected, model: clients.Model, client: Conversation, turn: int) -> None:
    """It is taken back while the session goes on, and the agent hears of it."""
    client.say("[scene delegate] go")
    assert (project.project / "main.txt").exists()
    assert not (project.project / "data/table.csv").exists()
    project.undo()
    assert project.changes_since(model.seen("delegate", turn)) == []
    client.say("[scene again] go")
    assert (project.project / "again.txt").exists()
    (told,) = told_of_undo(model)
    assert "main.txt" in told and "helper.txt" not in told


def told_of_undo(model: clients.Model) -> list[str]:
    """What the agent was told of things taken back, as its model read it at the end."""
    *_, last = (request["body"] for request in model.requests() if request["body"].get("tools"))
    return [text for text in texts(last) if TOLD.search(text)]


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    else:
        for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from texts(part)


def one_prompt(project: Protected, model: clients.Model) -> None:
    """All that was done for it goes, by the agent and by its subagent. What came later stays."""
    project.undo(prompt_id(project, "delegate"))
    assert not (project.project / "helper.txt").exists()
    assert (project.project / "again.txt").exists()
    project.undo()
    assert apart_from_times(model.seen("delegate", 0), project.look()) == []


def all_of_it(project: Protected, begin: Picture, story: Story) -> None:
    """What the human wrote over is a conflict, and nothing happens; then theirs is kept."""
    before = project.look()
    runs = [entry["id"] for entry in project.entries() if entry["kind"] == "run"]
    refused = project.takeback("undo", *runs, "--json", code=3)
    assert story.edited in refused.said
    assert project.changes_since(before) == []
    project.takeback("undo", *runs, "--json", "--on-conflict", "keep")
    after = project.look()
    kept = {line.partition(":")[0].strip("'") for line in apart_from_times(begin, after)}
    # What opencode itself puts beside its plugins is no tool's work, and stays.
    assert kept - {".opencode/.gitignore"} == {"mine.txt", story.edited, "data/table.csv"}
    assert (project.project / story.edited).read_text().endswith(MINE)
    assert (project.project / "data/table.csv").read_text() == "a,b\n3,4\n"
    # And forward again.
    project.takeback("redo", "--json")
    assert project.changes_since(before) == []


def nothing_is_left_open(project: Protected) -> None:
    states = {entry["id"]: entry["state"] for entry in actions(project)}
    assert set(states.values()) <= {"done", "failed"}, states
    status = project.takeback("verify")
    assert status.code == 0


def actions(project: Protected) -> list[dict[str, Any]]:
    return [entry for entry in project.entries() if entry["kind"] == "action"]


def prompt_id(project: Protected, scene: str) -> str:
    steps = [step for entry in project.entries() if entry["kind"] == "run" for step in entry["steps"]]
    (found,) = [step["id"] for step in steps if f"scene {scene}" in step["name"]]
    return str(found)
