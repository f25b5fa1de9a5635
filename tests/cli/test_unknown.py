"""A command whose effect nobody can tell from its words: a human hears of it before an undo and after it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.world.cli import Workspace


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A folder with a `make`, of which nobody knows what it does."""
    make = tmp_path / "bin/make"
    make.parent.mkdir()
    make.write_text("#!/bin/sh\necho made > made.txt\n")
    make.chmod(0o755)
    monkeypatch.setenv("PATH", f"{make.parent}:{os.environ['PATH']}")
    return Workspace.at(tmp_path)


def test_a_human_is_told_everywhere_that_a_command_was_unknown(world: Workspace) -> None:
    done = world.do("run", "--name", "build", "--", "make", "all")
    assert "unknown            whether it did anything elsewhere" in done.stderr
    assert "take it back " in done.stderr, "not all: who knows what else it did"
    id = world.action("build")
    status = world.do("status")
    (would,) = [line for line in status.stdout.splitlines() if f"would take back {id}, " in line]
    assert would.endswith(": build (effect unknown).")
    assert f"It is unknown whether {id} did anything elsewhere." in status.stdout
    assert world.do("status", "--json").json["unknown"] == [id]
    (row,) = [line for line in world.do("log").stdout.splitlines() if "build" in line]
    assert "effect unknown" in row
    preview = world.do("undo", "--preview")
    assert f"unknown    whether build ({id}) did anything elsewhere" in preview.stdout
    assert world.do("undo", "--preview", "--json").json["verdict"] == "unknown"
    undone = world.do("undo")
    assert f"unknown    whether build ({id}) did anything elsewhere" in undone.stdout
    assert "Verified" in undone.stdout and not (world.root / "made.txt").exists()
    assert world.do("status", "--json").json["unknown"] == [], "it was said when it was taken back"


def test_the_report_as_json_has_the_verdict_and_the_ids(world: Workspace) -> None:
    world.do("run", "--name", "build", "--", "make", "all")
    report = world.do("undo", "--json").json
    assert (report["verdict"], report["unknown"]) == ("unknown", [world.action("build")])


def test_what_can_be_judged_is_clean(world: Workspace) -> None:
    world.do("run", "--", "sh", "-c", "echo x > x")
    assert "unknown" not in world.do("log").stdout + world.do("status").stdout
    report = world.do("undo", "--json").json
    assert (report["verdict"], report["unknown"]) == ("clean", [])


def test_an_unknown_command_runs_on_autopilot_unless_a_rule_says_otherwise(world: Workspace) -> None:
    world.do("run", "--autopilot", "--", "make", "all")
    world.do("undo")
    (world.root / "takeback.toml").write_text('[rules.effects]\nunknown = "deny"\n')
    refused = world.do("run", "--autopilot", "--", "make", "all", code=125)
    assert "this command is unknown" in refused.stderr and "effects.unknown" in refused.stderr
    assert not (world.root / "made.txt").exists()


def test_an_undo_that_finds_nothing_here_still_names_what_is_unknown(world: Workspace) -> None:
    (world.root.parent / "bin/make").write_text("#!/bin/sh\nrm ../theirs\n")
    (world.root.parent / "theirs").write_text("x")
    world.do("run", "--name", "build", "--", "make", "all")
    id = world.action("build")
    report = world.do("undo", "--json").json
    assert (report["verdict"], report["unknown"], report["items"]) == ("unknown", [id], [])
    undone = world.do("undo")
    assert f"unknown    whether build ({id}) did anything elsewhere" in undone.stdout


def test_an_undo_that_passes_an_unknown_command_names_it_once(world: Workspace) -> None:
    """What is taken back is as before; what came after it and was passed over may have destroyed something."""
    (world.root.parent / "bin/make").write_text("#!/bin/sh\nrm -f ../theirs\n")
    world.do("run", "--", "sh", "-c", "echo x > x")
    world.do("run", "--", "sh", "-c", "echo y > y")
    world.do("run", "--name", "build", "--", "make", "all")
    id = world.action("build")
    preview = world.do("undo", "--preview", "--json").json
    assert (preview["verdict"], preview["unknown"]) == ("unknown", [id])
    undone = world.do("undo")
    assert f"unknown    whether build ({id}) did anything elsewhere" in undone.stdout
    assert world.has("x") and not world.has("y")
    report = world.do("undo", "--json").json
    assert (report["verdict"], report["unknown"]) == ("clean", []), "it was said with the undo before"


def test_an_undo_that_passes_an_irreversible_command_names_it(world: Workspace) -> None:
    """Nothing of it was found here, but it is known to have destroyed something elsewhere."""
    (world.root.parent / "deep").mkdir()
    (world.root.parent / "deep/theirs").write_text("x")
    words = ("sh", "-c", "find .. -path '*deep/theirs' -exec rm {} +")
    world.do("run", "--name", "sweep", "--", *words)
    stays = "stays      what sweep did outside the workspace"
    nothing = world.do("undo")
    assert "Nothing to take back" in nothing.stdout and stays in nothing.stdout
    assert world.do("undo", "--json").json["stays"] == ["sweep"]
    world.do("run", "--", "sh", "-c", "echo x > x")
    assert stays not in world.do("undo", "--preview").stdout, "it came before what is taken back"
    world.do("undo")
    assert stays not in world.do("undo").stdout, "a rollback came since"
    world.do("run", "--", "sh", "-c", "echo x > x")
    world.do("run", "--name", "again", "--", *words)
    undone = world.do("undo")
    assert "stays      what again did outside the workspace" in undone.stdout and not world.has("x")
