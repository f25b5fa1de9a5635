"""Colour on a terminal that wants it, and nowhere else; and readers that go away."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.world.cli import Workspace, environment

from .processes import PYTHON, ended, on_terminal, start

ESCAPE = "\x1b"
CLEARED = f"\r{ESCAPE}[K"


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
from takeback.cli.progress import TerminalProgress
now = 1000.0
time.monotonic = lambda: now  # a busy machine may stand still for half a second anywhere
progress = TerminalProgress()
for n in progress("Reading files", range(12345), 12345):
    if n == 12340:
        now += 0.55
"""


def test_progress_is_shown_after_half_a_second_on_a_terminal(world: Workspace) -> None:
    _, shown = on_terminal(world, program=("-c", PROGRESS))
    assert shown == f"{CLEARED}Reading files: 12,341 of 12,345 {CLEARED}"


def test_a_dumb_terminal_gets_no_control_codes_for_progress(world: Workspace) -> None:
    _, shown = on_terminal(world, program=("-c", PROGRESS), env={"TERM": "dumb"})
    assert shown == ""


# Every command as it is, but for the patience: whatever could be told is told.
AT_ONCE = """
import sys
from takeback.cli import main, progress
progress.WAIT_S = progress.PAUSE_S = -1
main(sys.argv[1:])
"""


def told(world: Workspace, *words: str) -> tuple[set[str], str]:
    """What the progress line said meanwhile, and what stays on the screen."""
    code, shown = on_terminal(world, *words, program=("-c", AT_ONCE))
    assert code == 0, shown
    lines = [line.split(CLEARED) for line in shown.split("\n")]
    said = {text.split(":")[0] for line in lines for text in line[:-1] if text}
    return said, "\n".join(line[-1] for line in lines)


def test_everything_long_tells_how_far_it_is_and_leaves_no_trace(changed: Workspace) -> None:
    changed.configure("[store]\nkeep-checkpoints = 1\n")
    changed.agent("echo x > made")
    expected: dict[tuple[str, ...], set[str]] = {
        ("save",): set(),
        ("undo", "--preview"): set(),
        ("undo",): {"Removing files"},
        ("redo",): {"Preparing files", "Putting files back", "Reading files"},
        ("log", "-n", "0"): {"Reading the history", "Arranging the entries"},
        ("log", "--flat", "--grep", "no such text"): {"Reading the history"},
        ("verify", "--deep"): {"Reading files", "Checking 00000001.pack"},
        ("gc",): {"Looking at what is needed", "Looking at stored content", "Cleaning up 00000001.pack"},
    }
    for words, parts in expected.items():
        said, stays = told(changed, *words)
        assert parts <= said, (words, said)
        assert not any(text in stays for text in said), stays
        assert len(stays.splitlines()) >= 1, stays


SLOW = """
import sys, time
from takeback.cli import main
from takeback.workspace.workspace import Workspace
undo = Workspace.try_undo
Workspace.try_undo = lambda *given, **more: (time.sleep(1.2), undo(*given, **more))[1]
main(sys.argv[1:])
"""


def test_an_undo_of_more_than_half_a_second_tells_that_it_goes_on(changed: Workspace) -> None:
    code, shown = on_terminal(changed, "undo", program=("-c", SLOW))
    assert code == 0 and f"{CLEARED}Taking back: 1 s {CLEARED}" in shown
    assert "Took back" in shown.rpartition(CLEARED)[2], "and leaves no trace"


INTERRUPTED = """
import os, signal, sys
from takeback.cli import main
from takeback.engine.describe import recent
recent._passes = lambda *given: os.kill(os.getpid(), signal.SIGINT)
main(sys.argv[1:])
"""


def test_a_search_of_the_history_can_be_interrupted(changed: Workspace) -> None:
    code, shown = on_terminal(changed, "log", "--grep", "no such text", program=("-c", INTERRUPTED))
    assert code == 130 and "Interrupted" in shown and "Traceback" not in shown
    changed.do("log")


def test_no_progress_beside_json(changed: Workspace) -> None:
    for words in (("undo", "--json"), ("redo", "--json"), ("verify", "--deep", "--json"), ("gc", "--json")):
        said, stays = told(changed, *words)
        assert said == set() and len(stays.splitlines()) == 1, stays


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


STEERING = "\x1b]52;c;ZXZpbA==\x07", "\x1b[2K", "\r", "\x9b8m", "\u202e", "\x1b[8m"


def test_what_a_file_says_does_not_steer_the_terminal(world: Workspace) -> None:
    """An escape sequence in a file may set the clipboard of whoever looks at a diff."""
    world.save()
    (world.root / "plan.md").write_text("new" + "x".join(STEERING) + "end\n")
    for words in (("diff",), ("diff", "--stat"), ("status",), ("log",)):
        _, shown = on_terminal(world, *words)
        plain = shown.replace("\r\n", "\n")
        assert not [found for found in STEERING if found in plain]
    _, shown = on_terminal(world, "diff")
    assert r"\x1b]52;c;" in shown and r"\u202e" in shown


def test_json_does_not_steer_the_terminal_either(world: Workspace) -> None:
    """JSON spells out what is below a space; what else steers is spelt out in its way, so that it reads the same."""
    name = "named" + "x".join(STEERING)
    world.do("run", "--name", name, "--", "sh", "-c", "echo new > plan.md")
    for words in (("log", "--json"), ("export",), ("status", "--json"), ("undo", "--preview", "--json")):
        _, shown = on_terminal(world, *words)
        assert not [found for found in STEERING if found in shown.replace("\r\n", "\n")], words
    _, shown = on_terminal(world, "status", "--json")
    assert json.loads(shown) == world.do("status", "--json").json


def test_a_diff_in_a_pipe_is_a_patch(world: Workspace) -> None:
    world.save()
    (world.root / "plan.md").write_text("new\x0cpage\u202e\n")
    shown = world.do("diff").stdout
    assert "+new\x0cpage\u202e\n" in shown
