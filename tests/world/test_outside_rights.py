"""Paths outside the workspace that are closed to whoever works here, and processes that live on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.processes import bound, until, wait_for

from .cli import Workspace, items

STRANGER = 12345


@pytest.fixture
def world(tmp_path: Path) -> Workspace:
    made = Workspace.at(tmp_path)
    made.human("plan.md", "old\n")
    other = tmp_path / "other"
    other.mkdir(mode=0o777)
    other.chmod(0o777)
    (other / "a").write_text("a\n")
    (other / "closed").write_text("closed\n")
    return made


def test_a_file_that_cannot_be_read_is_named_and_the_rest_comes_back(world: Workspace) -> None:
    other = world.root.parent / "other"
    give_away(other / "closed", 0)
    done = bound(world, "run", "--name", "agent", "--", "sh", "-c", "rm -rf ../other/a ../other/closed")
    assert done.stderr.count(f"{other}/closed was not captured: it cannot be read") == 2
    report = bound(world, "undo", "--json", code=6).json
    did = {item["target"]: item["did"] for item in report["items"]}
    assert did[f"{other}/a"] == "restored" and did[f"{other}/closed"] == "failed"
    assert (other / "a").read_text() == "a\n"


def test_a_folder_that_was_closed_since_is_a_conflict(world: Workspace) -> None:
    other = world.root.parent / "other"
    bound(world, "run", "--", "sh", "-c", "echo new > ../other/a; echo new > plan.md")
    give_away(other, 0o700)
    assert f"{other}/a" in bound(world, "undo", code=3).said
    bound(world, "undo", "--path", "plan.md")
    assert world.read("plan.md") == "old\n" and (other / "a").read_text() == "new\n"
    give_away(other, 0o777)
    bound(world, "undo", "--json")
    assert (other / "a").read_text() == "a\n"


def test_what_could_not_be_put_back_is_held_on_autopilot(world: Workspace) -> None:
    other = world.root.parent / "other"
    give_away(other, 0o755)
    done = bound(world, "run", "--autopilot", "--", "sh", "-c", "echo x > ../other/a", code=125)
    assert f"{other}/a was not captured: its folder is not writable" in done.stderr


def test_what_the_agent_closed_is_opened_for_the_undo(world: Workspace) -> None:
    other = world.root.parent / "other"
    for path in (other, other / "a"):
        os.chown(path, os.geteuid(), -1)
    bound(
        world,
        "run",
        "--",
        "sh",
        "-c",
        "rm ../other/a; mkdir -p ../new/in; chmod 000 ../new/in; chmod 000 ../new",
    )
    bound(world, "undo", "--json")
    assert (other / "a").read_text() == "a\n" and not (world.root.parent / "new").exists()


def test_what_a_process_that_lives_on_does_there_is_in_doubt(world: Workspace) -> None:
    other = world.root.parent / "other"
    later = until("$(echo ../go)")
    world.agent(f"({later}; echo late >> ../other/a) >&- 2>&- & echo $! > pid")
    assert (other / "a").read_text() == "a\n"
    (world.root.parent / "go").touch()
    wait_for(lambda: (other / "a").read_text() != "a\n")
    process = Path(f"/proc/{world.read('pid').strip()}")
    wait_for(lambda: not process.exists())
    world.save()
    assert items(world.undo(code=3))[f"{other}/a"] == "conflict"
    assert items(world.undo("--on-conflict", "overwrite"))[f"{other}/a"] == "restored"
    assert (other / "a").read_text() == "a\n"


def give_away(path: Path, mode: int) -> None:
    path.chmod(mode)
    os.chown(path, STRANGER, -1)
