"""Colour on a terminal that wants it, and nowhere else; and readers that go away."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.world.cli import Workspace, environment

from .processes import PYTHON, ended, on_terminal, start

ESCAPE = "\x1b"


@pytest.fixture
def changed(world: Workspace) -> Workspace:
    world.save()
    world.agent("echo new > plan.md")
    return world


def test_colour_on_a_terminal(changed: Workspace) -> None:
    code, shown = on_terminal(changed, "diff")
    assert code == 0
    assert f"{ESCAPE}[32m+new" in shown and f"{ESCAPE}[31m-old" in shown


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"NO_COLOR": ""}, {"TERM": "dumb"}], ids=str)
def test_no_colour_where_it_is_not_wanted(env: dict[str, str], changed: Workspace) -> None:
    """An empty NO_COLOR counts as unset, by its own convention."""
    code, shown = on_terminal(changed, "diff", env=env)
    assert code == 0 and "+new" in shown
    assert (ESCAPE in shown) == (env == {"NO_COLOR": ""})


def test_no_colour_in_a_pipe(changed: Workspace) -> None:
    surroundings = environment(changed.home) | {"TERM": "xterm-256color"}
    del surroundings["NO_COLOR"]
    done = subprocess.run(
        [PYTHON, "-m", "takeback", "undo", "--preview"],
        cwd=changed.root,
        env=surroundings,
        capture_output=True,
    )
    assert done.returncode == 0 and b"plan.md" in done.stdout
    assert ESCAPE.encode() not in done.stdout + done.stderr


PROGRESS = """
import time
from takeback.cli.progress import Progress
progress = Progress()
progress(1, 1)
time.sleep(0.55)
progress(12345, 6_000_000)
progress.done()
"""


def test_progress_is_shown_after_half_a_second_on_a_terminal(world: Workspace) -> None:
    _, shown = on_terminal(world, program=("-c", PROGRESS))
    assert "12,345" in shown and "6 MB" in shown


def test_a_dumb_terminal_gets_no_control_codes_for_progress(world: Workspace) -> None:
    _, shown = on_terminal(world, program=("-c", PROGRESS), env={"TERM": "dumb"})
    assert ESCAPE not in shown


def test_a_reader_that_goes_away_is_no_error(world: Workspace) -> None:
    """`takeback log | head -1`"""
    for n in range(3):
        world.save(str(n))
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        process = start(world, "log", stdout=pipe)
    done = ended(process)
    assert (done.code, done.stderr) == (0, ""), done
