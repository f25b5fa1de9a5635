"""A rollback that was cut short is finished by the next command, which says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from takeback.core.rollback import Verdict
from takeback.testing import crash
from takeback.workspace.opening import open_workspace
from tests.cli.inside import Inside

PLACES = ["rollback-recorded", "restore-staged", "restore-ready", "restore-swapped", "rollback-swapped"]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inside:
    """Two actions: one made `early`, one changed `plan`, removed `gone` and made `made`."""
    made = Inside(tmp_path / "work", tmp_path / "state")
    made.root.mkdir()
    monkeypatch.setenv("TAKEBACK_HOME", str(made.home))
    made.human("plan", "old")
    made.human("gone", "old")
    made.agent("echo x > early", name="first")
    made.agent("printf new > plan; rm gone; echo x > made", name="second")
    return made


def cut_short(world: Inside, place: str, *words: str) -> None:
    assert crash.run(place, 1, ["takeback", *words], cwd=world.root).returncode == crash.KILLED


def is_taken_back(world: Inside) -> bool:
    return (world.read("plan"), world.read("gone"), world.has("made")) == ("old", "old", False)


@pytest.mark.parametrize("place", PLACES)
def test_undo_finishes_it_and_does_nothing_else(place: str, world: Inside) -> None:
    cut_short(world, place, "undo")
    done = world.do("undo")
    assert "was interrupted" in done.stdout and "finished" in done.stdout
    assert is_taken_back(world) and world.has("early")
    assert not list(world.root.glob(".takeback*"))
    # Only now does undo walk further back.
    world.undo()
    assert not world.has("early")
    world.do("verify", "--deep")


def test_the_json_of_undo_says_it_too(world: Inside) -> None:
    cut_short(world, "rollback-recorded", "undo")
    report = world.do("undo", "--json").json
    assert any("finished" in key and value for key, value in report.items()), report


@pytest.mark.parametrize("words", [("save",), ("run", "--", "true"), ("init",), ("gc",)], ids=str)
def test_every_other_command_finishes_it_and_says_so(words: tuple[str, ...], world: Inside) -> None:
    cut_short(world, "rollback-recorded", "undo")
    done = world.do(*words)
    assert is_taken_back(world)
    assert "interrupted" in done.said or "cut short" in done.said, done


def test_status_says_that_it_is_not_finished_or_finishes_it(world: Inside) -> None:
    cut_short(world, "rollback-recorded", "undo")
    said = world.do("status").said
    assert is_taken_back(world) or "undo" in said, said


def test_json_stays_one_object_where_something_was_finished(world: Inside) -> None:
    cut_short(world, "rollback-recorded", "undo")
    done = world.do("save", "--json")
    json.loads(done.stdout)


def test_a_redo_is_finished_as_well(world: Inside) -> None:
    before = world.look()
    world.undo()
    cut_short(world, "restore-ready", "redo")
    world.do("save")
    assert world.changes_since(before) == []


def test_a_restore_is_finished_as_well(world: Inside) -> None:
    before = world.look()
    checkpoint = world.save()
    world.human("plan", "newer")
    world.human("own", "mine")
    cut_short(world, "restore-ready", "restore", checkpoint)
    done = world.do("undo")
    assert "was interrupted" in done.stdout and "restore" in done.stdout
    assert world.changes_since(before) == []
    world.do("redo")
    assert (world.read("plan"), world.read("own")) == ("newer", "mine")


def test_before_the_plan_is_recorded_nothing_has_happened(world: Inside) -> None:
    cut_short(world, "rollback-planned", "undo")
    assert world.read("plan") == "new"
    done = world.do("save")
    assert "cut short" not in done.said and "interrupted" not in done.said
    assert world.read("plan") == "new"
    world.undo()
    assert is_taken_back(world)


def test_what_the_human_wrote_in_between_stays(world: Inside) -> None:
    cut_short(world, "rollback-recorded", "undo")
    world.human("plan", "the human was faster")
    done = world.run("undo")
    assert done.code == 6, done
    assert world.read("plan") == "the human was faster"
    assert world.read("gone") == "old" and not world.has("made")


def test_a_library_finishes_it_too(world: Inside) -> None:
    cut_short(world, "restore-swapped", "undo")
    with open_workspace(world.root, home=world.home, watching=True) as tb:
        tb.save()
        assert len(tb.notices) == 1 and "finished the interrupted undo" in tb.notices[0]
        assert tb.undo(preview=True).verdict is Verdict.CLEAN
    assert is_taken_back(world)
