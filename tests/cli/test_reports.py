"""Reports name what was done, and nothing else: what happened inside of a command, what is taken back only now."""

from __future__ import annotations

import os
import sys

from tests.world.cli import Workspace

from .test_log import row

NESTED = f"{sys.executable} -P -m takeback run --name {{name}} -- sh -c '{{script}}'"


def nested(world: Workspace, *, then: str = "") -> str:
    """An agent under `takeback run`, with two calls inside; gives what was said in the end."""
    calls = [
        NESTED.format(name="one", script="echo new > plan.md; echo x > scratch"),
        NESTED.format(name="two", script="rm scratch; echo y > made.txt"),
    ]
    done = world.run("run", "--name", "agent", "--", "sh", "-c", " && ".join([*calls, then or "true"]))
    return done.stderr


def test_the_receipt_of_a_command_has_what_happened_inside(world: Workspace) -> None:
    said = nested(world)
    outer = world.action("agent")
    last = said[said.rindex("agent done") :]
    # What came and went is no change.
    assert "It, with the 2 calls inside it, changed 1 file, created 1.\n  changed    plan.md\n" in last
    assert f"take it back       takeback undo {outer}" in last, "what else `python` does is unknown"
    assert row(world, outer).endswith("made.txt, plan.md")
    assert {c["target"] for c in world.do("diff", outer, "--json").json["changes"]} >= {"plan.md", "made.txt"}
    said = world.do("undo").stdout
    assert f"It happened inside {outer} (agent). All of that:  takeback undo {outer}" in said
    assert "partly taken back" in row(world, outer)
    world.do("undo", outer)
    assert "partly" not in row(world, outer) and "taken back" in row(world, outer)
    assert not (world.root / "made.txt").exists()


def test_a_command_that_fails_is_taken_back_with_what_happened_inside(world: Workspace) -> None:
    script = NESTED.format(name="one", script="echo x > made.txt") + "; exit 3"
    done = world.run("run", "--undo-on-failure", "--", "sh", "-c", script)
    assert done.code == 3
    assert not (world.root / "made.txt").exists()


def test_only_what_is_taken_back_now_is_named(world: Workspace) -> None:
    world.agent("echo one > one", name="first")
    world.agent("echo two > two", name="second")
    first, second = world.action("first"), world.action("second")
    world.do("undo", second)
    for more in (["--preview"], []):
        said = world.do("undo", first, second, *more).stdout
        assert f"first ({first}" in said and f"second ({second}" not in said


def test_a_redo_that_stops_says_that_nothing_was_brought_back(world: Workspace) -> None:
    world.agent("echo agent > plan.md")
    world.do("undo")
    world.human("plan.md", "mine\n")
    said = world.do("redo", code=3).stderr
    assert "Nothing was brought back." in said and "taken back" not in said
    assert "keep yours and bring back the rest" in said


def test_an_undo_from_inside_of_what_has_not_ended_says_so_at_once(world: Workspace) -> None:
    """It would wait for itself."""
    undo = f"{sys.executable} -P -m takeback undo 2>&1 | tail -3"
    done = world.run("run", "--name", "agent", "--", "sh", "-c", f"echo x > made.txt; {undo}")
    inside = world.action("agent")
    assert f"this command runs inside {inside} (agent), which has not ended" in done.stdout
    assert "run it as a separate command" in done.stdout and "takeback resume" not in done.stdout
    assert (world.root / "made.txt").exists()


def test_a_time_that_was_put_back_is_said(world: Workspace) -> None:
    text = (world.root / "plan.md").read_text()
    os.utime(world.root / "plan.md", (1_600_000_000, 1_600_000_000))
    world.agent(f"printf '%s' '{text}' > plan.md")
    said = world.do("undo").stdout
    assert "only the time was put back: plan.md" in said and "already" not in said
    assert (world.root / "plan.md").stat().st_mtime == 1_600_000_000
