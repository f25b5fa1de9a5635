"""A symlink planted while Takeback restores cannot lead it outside the workspace."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

import takeback

from .cli import Workspace
from .picture import Picture, differences, picture
from .planting import lead_away, struck

FILES = 40


def plant_outside(folder: Path) -> tuple[Path, Picture]:
    """A folder beside the workspace, with precious files of the same names as those inside."""
    outside = folder / "outside"
    (outside / "deep").mkdir(parents=True)
    for number in range(FILES):
        (outside / f"{number}").write_text("precious")
        (outside / f"deep/{number}").write_text("precious")
    os.utime(outside, ns=(0, 1_000_000_000))
    os.utime(outside / "deep", ns=(0, 1_000_000_000))
    return outside, picture(bytes(outside))


def fill(world: Workspace) -> None:
    for number in range(FILES):
        world.human(f"folder/{number}", f"old {number}")
        world.human(f"folder/deep/{number}", f"old deep {number}")


def spoil(world: Workspace) -> None:
    """What the agent does: some files edited, some deleted, some made, so that undo writes and deletes."""
    folder = world.root / "folder"
    for number in range(0, FILES, 3):
        (folder / f"{number}").write_text("new")
        (folder / f"deep/{number}").unlink()
        (folder / f"made-{number}").write_text("made")
    (folder / "1").chmod(0o600)
    os.utime(folder / "2", ns=(0, 5))


VICTIMS = ("folder", "folder/deep")


def undo_with_a_strike(folder: Path, victim: str, place: int) -> bool:
    """Undo while a link is planted at the n-th place; whether that place was passed at all."""
    world = Workspace.at(folder)
    outside, before = plant_outside(folder)
    fill(world)
    target = world.root / victim
    with takeback.open(world.root, home=world.home) as tb:
        tb.save("before")
        with tb.recording("agent"):
            spoil(world)
        with struck(place, lambda: lead_away(target, outside)) as passed:
            try:
                tb.undo()
            except takeback.TakebackError:
                pass  # it may well refuse, or report what it could not do
    assert differences(before, picture(bytes(outside))) == [], f"planted at {passed[place - 1 : place]}"
    return len(passed) >= place


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_link_planted_at_any_named_place_leads_nowhere(tmp_path: Path, victim: str) -> None:
    place = 1
    while undo_with_a_strike(tmp_path / str(place), victim, place):
        place += 1 if place < 12 or os.environ.get("TAKEBACK_TEST_ALL") else 7
    assert place > 1, "undo passes no named place"


FLIP = """
import os, sys, time
folder, aside, outside = sys.argv[1:]
while True:
    os.rename(folder, aside)
    os.symlink(outside, folder)
    time.sleep(0.0001)
    os.unlink(folder)
    os.rename(aside, folder)
    time.sleep(0.0001)
"""


@contextmanager
def flipping(folder: Path, outside: Path) -> Iterator[None]:
    """Another process turns a folder into a link and back, without pause."""
    aside = folder.with_name("aside")
    with subprocess.Popen([sys.executable, "-c", FLIP, folder, aside, outside]) as flipper:
        try:
            yield
            assert flipper.poll() is None, "the flipper died, so there was no race"
        finally:
            flipper.kill()
    if folder.is_symlink():
        folder.unlink()
    if aside.exists():
        aside.rename(folder)


def race(world: Workspace, victim: str, seconds: float) -> int:
    """Undo and redo while a folder flips between itself and a link; how often they ran."""
    outside, before = plant_outside(world.root.parent)
    fill(world)
    rounds = 0
    surprises = []
    with takeback.open(world.root, home=world.home) as tb:
        tb.save("before")
        with tb.recording("agent"):
            spoil(world)
        with flipping(world.root / victim, outside):
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                for command in (partial(tb.undo, on_conflict="overwrite"), tb.redo):
                    try:
                        command()
                    except takeback.TakebackError:
                        pass
                    except OSError:
                        surprises.append(traceback.format_exc())
                    rounds += 1
    assert differences(before, picture(bytes(outside))) == []
    assert not surprises, f"{len(surprises)} of {rounds} ended with an error of the system:\n{surprises[0]}"
    return rounds


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_folder_flipped_to_a_link_all_the_time(world: Workspace, victim: str) -> None:
    assert race(world, victim, seconds=3) > 0


@pytest.mark.sweep
@pytest.mark.parametrize("victim", VICTIMS)
def test_a_folder_flipped_to_a_link_for_a_minute(world: Workspace, victim: str) -> None:
    assert race(world, victim, seconds=60) > 0


def test_a_link_that_stands_when_undo_begins(world: Workspace) -> None:
    outside, before = plant_outside(world.root.parent)
    fill(world)
    world.agent("for f in folder/*; do [ -f $f ] && echo new > $f; done; rm folder/deep/*")
    lead_away(world.root / "folder", outside)
    for choice in ("stop", "keep", "merge", "overwrite"):
        world.run("undo", "--on-conflict", choice)
        assert differences(before, picture(bytes(outside))) == []


def test_a_file_that_became_a_link_is_not_written_through(world: Workspace) -> None:
    outside, before = plant_outside(world.root.parent)
    world.human("config", "old")
    world.agent("echo new > config; echo x > made")
    for name, target in (("config", "0"), ("made", "1")):
        (world.root / name).unlink()
        (world.root / name).symlink_to(outside / target)
    for choice in ("stop", "overwrite"):
        world.run("undo", "--on-conflict", choice)
        assert differences(before, picture(bytes(outside))) == []
    assert world.read("config") == "old"
