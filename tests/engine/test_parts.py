"""A part of a command is known by what it is: a step that is called so, in the command that owns the process."""

from __future__ import annotations

import pytest

from takeback.core import events as e
from takeback.engine.tracking.tracker import is_part
from tests.core.story import Story

MARKS = (e.Mark("files", "state", "looked"),)
PROCESS = e.Process(4242, "1", "boot", "host")


@pytest.mark.parametrize(
    "step, name, process, expected",
    [
        ("part 1", "part 1 of agent", PROCESS, True),
        ("part 12", "part 12 of agent", PROCESS, True),
        ("edit", "part 1 of agent", PROCESS, False),
        ("part 1", "write_file", PROCESS, False),
        ("part 1", "part 1 of another", PROCESS, False),
        ("part one", "part one of agent", PROCESS, False),
        ("part 1", "part 1 of agent", None, False),
    ],
)
def test_what_is_a_part(step: str, name: str, process: e.Process | None, expected: bool) -> None:
    """All of these have a step, a parent and marks, and neither a key nor a process."""
    story = Story()
    run = story.run()
    whole = story.tell(e.ActionBegan("agent", e.Effect.UNKNOWN, process=process, marks=MARKS), run).id
    within = story.tell(e.StepBegan(step), run).id
    began = e.ActionBegan(name, e.Effect.UNKNOWN, step=within, parent=whole, marks=MARKS)
    action = story.history.actions[story.tell(began, run).id]
    assert is_part(story.history, action) is expected
    assert not is_part(story.history, story.history.actions[whole])
