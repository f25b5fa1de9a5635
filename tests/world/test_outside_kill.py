"""Kill -9, and links planted, while paths outside the workspace are captured or taken back."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import takeback

from .cli import Workspace
from .kill import finish, killed_at, places_of
from .picture import Picture, differences, picture
from .planting import lead_away, struck

AGENT = "rm -rf ../other/deep && echo more >> ../other/a.txt && mkdir ../other/new && echo x > ../other/new/x"
RUN = ("run", "--", "sh", "-c", AGENT)
VICTIMS = ("other", "other/deep")


class Scene:
    def __init__(self, folder: Path) -> None:
        self.world = Workspace.at(folder)
        self.other = folder / "other"
        (self.other / "deep/empty").mkdir(parents=True)
        (self.other / "a.txt").write_text("a\n")
        (self.other / "deep/b.txt").write_text("b\n")
        self.world.human("plan.md", "old\n")
        assert self.run("save") == 0

    def run(self, *command: str) -> int:
        return finish(command, cwd=self.world.root, home=self.world.home)

    def kill(self, place: int, *command: str) -> bool:
        return killed_at(place, command, cwd=self.world.root, home=self.world.home)

    def places(self, *command: str) -> list[str]:
        return places_of(command, cwd=self.world.root, home=self.world.home)

    def look(self) -> Picture:
        """The time of the folder itself is not taken back: it was not named."""
        return {
            path: e._replace(mtime_ns=0) if path == b"." else e
            for path, e in picture(bytes(self.other)).items()
        }


def chosen(passed: list[str], *, every: bool) -> list[int]:
    """The first passage of each named place, or every passage."""
    if every:
        return list(range(1, len(passed) + 1))
    return sorted(passed.index(name) + 1 for name in set(passed))


def kill_the_undo(tmp_path: Path, *, every: bool) -> None:
    dry = Scene(tmp_path / "dry")
    assert dry.run(*RUN) == 0
    passed = dry.places("undo")
    assert {"outside-marked", "restore-swapped", "rollback-recorded"} <= set(passed)
    for place in chosen(passed, every=every):
        scene = Scene(tmp_path / str(place))
        before = scene.look()
        assert scene.run(*RUN) == 0
        after = scene.look()
        assert scene.kill(place, "undo")
        assert scene.run("save") == 0
        now = scene.look()
        done = not differences(before, now)
        assert done or not differences(after, now), (passed[place - 1], differences(before, now))
        assert scene.run("redo" if done else "undo") == 0
        assert differences(after if done else before, scene.look()) == [], passed[place - 1]
        assert [name for name in os.listdir(scene.other) if "takeback" in name] == []
        assert scene.run("verify", "--deep") == 0


def kill_the_guard(tmp_path: Path, *, every: bool) -> None:
    dry = Scene(tmp_path / "dry")
    passed = dry.places(*RUN)
    assert "outside-marked" in passed
    for place in chosen(passed, every=every):
        scene = Scene(tmp_path / str(place))
        before = scene.look()
        assert scene.kill(place, *RUN)
        assert scene.run("save") == 0
        began = differences(before, scene.look()) != []
        code = scene.run("undo")
        if code == 3:  # it may be somebody else's, as nobody saw its guard alive afterwards
            code = scene.run("undo", "--on-conflict", "overwrite")
        assert code == 0, passed[place - 1]
        assert differences(before, scene.look()) == [], (passed[place - 1], began)


def test_an_undo_that_is_killed_is_finished_by_the_next_command(tmp_path: Path) -> None:
    kill_the_undo(tmp_path, every=False)


def test_a_command_whose_guard_is_killed_is_settled_by_looking(tmp_path: Path) -> None:
    kill_the_guard(tmp_path, every=False)


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kill", [kill_the_undo, kill_the_guard])
def test_killed_at_every_passage(tmp_path: Path, kill: Callable[..., None]) -> None:
    kill(tmp_path, every=True)


def plant_a_link(tmp_path: Path, victim: str, stride: int) -> None:
    place, passed = 1, ["", ""]
    while len(passed) >= place:
        folder = tmp_path / str(place)
        scene = Scene(folder)
        precious = folder / "precious"
        (precious / "deep").mkdir(parents=True)
        for name in ("a.txt", "b.txt", "deep/b.txt"):
            (precious / name).write_text("precious")
        before = picture(bytes(precious))
        assert scene.run("run", "--", "sh", "-c", "echo x > ../other/deep/b.txt; rm ../other/a.txt") == 0

        strike = partial(lead_away, folder / victim, precious)
        with takeback.open(scene.world.root, home=scene.world.home) as tb, struck(place, strike) as passed:
            try:
                tb.undo()
            except takeback.TakebackError:
                pass  # it may well refuse, or report what it could not do
        assert differences(before, picture(bytes(precious))) == [], passed[place - 1 :][:1]
        place += stride
    assert place > 2


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_link_planted_while_it_is_taken_back_leads_nowhere(tmp_path: Path, victim: str) -> None:
    plant_a_link(tmp_path, victim, stride=9)


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("victim", VICTIMS)
def test_a_link_planted_anywhere_leads_nowhere(tmp_path: Path, victim: str) -> None:
    plant_a_link(tmp_path, victim, stride=1)
