"""What Takeback itself writes into a project: only what was asked for, and as an action that its id takes back."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.world.cli import Workspace
from tests.world.picture import differences, picture


@pytest.fixture
def world(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path / "project", tmp_path / "state")
    made.root.mkdir()
    (made.root / "CLAUDE.md").write_text("be kind\n")
    (made.root / "a.txt").write_text("a\n")
    return made


def actions(world: Workspace) -> dict[str, str]:
    entries = world.do("log", "--json").json["entries"]
    return {entry["name"]: entry["id"] for entry in entries if entry["kind"] == "action"}


def test_init_writes_nothing_into_the_folder(world: Workspace) -> None:
    before = picture(os.fsencode(world.root))
    said = world.do("init")
    assert "AGENTS.md" not in said.said
    world.do("init", "--json")
    assert differences(before, picture(os.fsencode(world.root))) == []


def test_the_section_is_an_action_that_its_id_takes_back(world: Workspace) -> None:
    world.do("init")
    before = picture(os.fsencode(world.root))
    said = world.do("workflow", "init").stdout
    assert "takeback workflow resume" in (world.root / "AGENTS.md").read_text()
    assert "takeback workflow resume" in (world.root / "CLAUDE.md").read_text()
    (id,) = actions(world).values()
    assert f"takeback undo {id}" in said
    again = world.do("workflow", "init", "--json").json
    assert again["written"] == [] and again["action"] is None
    assert list(actions(world).values()) == [id], "a second time changes and records nothing"
    # A plain undo passes it over.
    assert world.do("undo").stdout == "Nothing to take back.\n"
    world.do("run", "--", "sh", "-c", "rm a.txt")
    world.do("workflow", "init", "--remove")
    world.do("workflow", "init")
    assert "a.txt" in world.do("undo").stdout
    assert world.do("undo").stdout == "Nothing to take back.\n"
    assert "AGENTS.md" not in world.do("status").stdout
    assert (world.root / "AGENTS.md").exists()
    first, removed, second = sorted(
        entry["id"]
        for entry in world.do("log", "--json").json["entries"]
        if entry["kind"] == "action" and entry["name"].startswith("takeback workflow init")
    )
    world.undo(second, removed, first)
    assert differences(before, picture(os.fsencode(world.root))) == []
    world.do("redo")
    assert (world.root / "AGENTS.md").exists()


def test_a_link_that_leads_out_is_said_and_not_followed(world: Workspace, tmp_path: Path) -> None:
    outside = tmp_path / "mine.md"
    outside.write_text("mine\n")
    (world.root / "AGENTS.md").symlink_to(outside)
    said = world.do("workflow", "init").stdout
    assert "into CLAUDE.md." in said and f"AGENTS.md leads to {outside}" in said
    again = world.do("workflow", "init")
    assert f"AGENTS.md leads to {outside}" in again.stdout
    (world.root / "CLAUDE.md").unlink()
    refused = world.run("workflow", "init")
    assert refused.code == 3 and "already" not in refused.said
    assert f"AGENTS.md leads to {outside}" in refused.stderr and "nothing was written" in refused.stderr
    assert outside.read_text() == "mine\n"


def test_the_log_says_that_a_human_asked_for_it(world: Workspace) -> None:
    id = world.do("workflow", "init", "--json").json["action"]
    (entry,) = [one for one in world.do("log", "--json").json["entries"] if one["id"] == id]
    assert entry["actor"] == "you"
    inside = world.do("run", "--", sys.executable, "-m", "takeback", "workflow", "init", "--remove")
    assert inside.code == 0
    entries = world.do("log", "--json").json["entries"]
    (removed,) = [one for one in entries if one["name"] == "takeback workflow init --remove"]
    assert removed["actor"] == "agent"


def test_everything_after_a_checkpoint_is_what_agents_did(world: Workspace) -> None:
    world.do("init")
    checkpoint = world.save("here")
    world.do("workflow", "init")
    world.do("run", "--", "sh", "-c", "rm a.txt")
    world.undo("--to", checkpoint)
    assert (world.root / "a.txt").exists() and (world.root / "AGENTS.md").exists()


def test_the_section_begins_the_protection_too(world: Workspace) -> None:
    said = world.do("workflow", "init", "--json").json
    assert said["written"] == ["AGENTS.md", "CLAUDE.md"] and said["action"]
    world.undo(said["action"])
    assert (world.root / "CLAUDE.md").read_text() == "be kind\n" and not (world.root / "AGENTS.md").exists()
    assert world.do("workflow", "init", "--remove", "--json").json["removed"] == []


@pytest.mark.parametrize("agent", ["claude-code", "cursor", "opencode"])
def test_installed_hooks_are_an_action_that_its_id_takes_back(agent: str, world: Workspace) -> None:
    before = picture(os.fsencode(world.root))
    said = world.do("install", agent, "--json").json
    assert list(actions(world).values()) == [said["action"]]
    assert world.do("undo").stdout == "Nothing to take back.\n"
    assert world.do("install", agent, "--json").json["action"] is None
    world.undo(said["action"])
    assert differences(before, picture(os.fsencode(world.root))) == []


def test_an_agent_does_not_take_back_its_own_hooks(world: Workspace) -> None:
    id = world.do("install", "claude-code", "--json").json["action"]
    place = world.root / ".claude/settings.local.json"
    hooks = place.read_bytes()
    undo = f"takeback undo {id}"
    done = world.run("run", "--", "sh", "-c", f"{sys.executable} -m {undo}")
    assert "only a human" in done.stderr and done.code == 3
    assert place.read_bytes() == hooks
