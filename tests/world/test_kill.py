"""Kill -9 in the middle of save, undo, redo and gc: the next command finishes the work, and nothing is lost.

Every named place that a command passes is a place to die. By default each name is tried where it is first or
last passed; with --all at every single passage, and again while the next command picks up the pieces.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import takeback
from takeback.testing import crash
from tests.sampling import half

from . import torture
from .cli import Workspace, environment, run_from_the_start
from .kill import finish, killed_at, places_of
from .picture import Picture, differences

COMMANDS = ("save", "undo", "redo", "gc")


@dataclass(frozen=True)
class Scene:
    """Two actions of an agent, and a human who edited `mine` after them: how the tree is after 0, 1 and 2."""

    world: Workspace
    zero: Picture
    one: Picture
    two: Picture

    def run(self, *command: str) -> int:
        return finish(command, cwd=self.world.root, home=self.world.home)

    def kill(self, place: int, *command: str) -> bool:
        return killed_at(place, command, cwd=self.world.root, home=self.world.home)

    def is_at(self, *pictures: Picture) -> bool:
        now = self.world.look()
        return any(not differences(picture, now) for picture in pictures)

    def prepare(self, command: str) -> tuple[Picture, Picture]:
        """Bring the tree to where the command can begin; the picture before it and after it."""
        if command == "undo":
            return self.two, self.one
        if command == "redo":
            assert self.run("undo") == 0
            return self.one, self.two
        return self.two, self.two


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    world = Workspace.at(folder)
    human = world.human
    world.configure("[store]\nkeep-checkpoints = 3\n")
    for name in (
        "edited",
        "deleted",
        "turned",
        "folder/moved",
        "folder/deep/x",
        "mine",
        "chmodded",
        "calm/edited",
    ):
        human(name, f"old {name}\n")
    human("large", torture.noise(200_000))
    with takeback.open(world.root, home=world.home) as tb:
        for number in range(5):
            human("garbage", torture.noise(50_000, seed=number))
            tb.save(str(number))
        zero = world.look()
        with tb.recording("first"):
            human("edited", "by the first\n")
            human("made-first", "x")
        one = world.look()
        with tb.recording("second"):
            _second_action(world)
        human("mine", "edited by the human\n")
    two = world.look()
    mine = {b"mine": two[b"mine"]}
    yield Scene(world, zero | mine, one | mine, two)
    shutil.rmtree(folder)


def _second_action(world: Workspace) -> None:
    root = world.root
    world.human("edited", "by the second\n")
    world.human("calm/edited", "by the second, and its folder has the time of before\n")
    world.human("large", torture.noise(200_000, seed=2))
    world.human("made/by/second", "x")
    (root / "deleted").unlink()
    (root / "turned").unlink()
    (root / "turned").symlink_to("/etc/passwd")
    (root / "folder/moved").rename(root / "moved-here")
    (root / "chmodded").chmod(0o600)
    shutil.rmtree(root / "folder/deep")


def where_to_die(folder: Path, command: str, which: str) -> list[tuple[int, str]]:
    """Each named place at its first passage, at its last, or every passage; with its name."""
    with scene(folder) as stage:
        stage.prepare(command)
        passed = places_of([command], cwd=stage.world.root, home=stage.world.home)
    assert passed, f"{command} passes no named place"
    every = list(enumerate(passed, 1))
    if which == "every":
        return every
    chosen = {name: number for number, name in (every if which == "last" else reversed(every))}
    return sorted((number, name) for name, number in chosen.items())


def whats_wrong(stage: Scene, next_command: str, *allowed: Picture) -> str:
    """Run the next command; whether the tree is then one of those that are allowed, and the state sound."""
    if (code := stage.run(next_command)) != 0:
        return f"the next {next_command} ended with {code}"
    if not stage.is_at(*allowed):
        return f"half done after {next_command}: {differences(allowed[-1], stage.world.look())}"
    if (code := stage.run("verify", "--deep")) != 0:
        return f"verify --deep ended with {code}"
    return ""


def killed_then_save(stage: Scene, command: str, place: int) -> str:
    """Wholly done or wholly undone after the next command; and what is recorded can still be taken back."""
    before, after = stage.prepare(command)
    if not stage.kill(place, command):
        return ""
    if wrong := whats_wrong(stage, "save", before, after):
        return wrong
    if command in ("save", "gc"):
        return whats_wrong(stage, "undo", stage.one)
    return ""


def killed_then_again(stage: Scene, command: str, place: int) -> str:
    """The same command again finishes the work and does no more."""
    _, after = stage.prepare(command)
    if not stage.kill(place, command):
        return ""
    if stage.is_at(after) and command == "undo":
        # All was done; whether it was also recorded as done decides if this is an undo of its own.
        return whats_wrong(stage, command, stage.zero, after)
    return whats_wrong(stage, command, after)


def killed_twice(stage: Scene, command: str, place: int) -> str:
    """Dying again while the next command picks up the pieces is no worse."""
    before, after = stage.prepare(command)
    if not stage.kill(place, command):
        return ""
    for again in (1, 2, 3, 5, 8, 13, 21):
        if not stage.kill(again, "save"):
            break
    return whats_wrong(stage, "save", before, after)


Judge = Callable[[Scene, str, int], str]


def failures(folder: Path, command: str, judge: Judge, which: str) -> list[str]:
    found = []
    for place, name in where_to_die(folder / "dry", command, which):
        with scene(folder / str(place)) as stage:
            if wrong := judge(stage, command, place):
                found.append(f"killed at place {place}, {name}: {wrong}")
    return found


HOW = [(killed_then_save, "first"), (killed_then_again, "last")]


@pytest.mark.parametrize("command, how", dict.fromkeys([*half(COMMANDS, HOW), ("undo", HOW[0])]))
def test_killed_at_each_named_place(tmp_path: Path, command: str, how: tuple[Judge, str]) -> None:
    judge, which = how
    assert failures(tmp_path, command, judge, which) == []


def test_killed_while_a_file_takes_the_place_of_a_folder(tmp_path: Path) -> None:
    """The folder is gone and the file is not there yet: the next command puts it there."""
    for place in range(1, 100):
        root, home = tmp_path / f"work{place}", tmp_path / f"state{place}"
        root.mkdir()
        (root / "swaps").write_text("file")
        with takeback.open(root, home=home) as tb, tb.recording("agent"):
            (root / "swaps").unlink()
            (root / "swaps").mkdir()
        was_killed = killed_at(place, ["undo"], cwd=root, home=home)
        with takeback.open(root, home=home) as tb:
            tb.save("after the kill")
            taken_back = any(action.is_rollback for action in tb.history.actions.values())
        assert (root / "swaps").is_file() == taken_back, place
        assert (root / "swaps").is_dir() != taken_back, place
        if not was_killed:
            return
    raise AssertionError("it is killed for ever")


def test_a_folder_in_which_the_human_worked_after_the_kill_keeps_its_time(tmp_path: Path) -> None:
    """The time of one that only the rollback worked in is put back; not where somebody else was at work too."""
    with scene(tmp_path / "dry") as stage:
        passed = places_of(["undo"], cwd=stage.world.root, home=stage.world.home)
    last = len(passed) - passed[::-1].index("restore-swapped")
    with scene(tmp_path / "killed") as stage:
        assert stage.kill(last, "undo")
        stage.world.human("calm/mine", "made after the kill")
        made_ns = (stage.world.root / "calm").stat().st_mtime_ns
        assert stage.run("save") == 0
        assert (stage.world.root / "calm").stat().st_mtime_ns == made_ns
        assert stage.world.read("calm/mine") == "made after the kill"
        assert stage.world.read("calm/edited") == "old calm/edited\n"


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("judge", [killed_then_save, killed_then_again, killed_twice])
@pytest.mark.parametrize("command", COMMANDS)
def test_killed_at_every_passage(tmp_path: Path, command: str, judge: Judge) -> None:
    assert failures(tmp_path, command, judge, "every") == []


def test_killed_by_the_public_crash_runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What users test their own code with: a process of its own, started as always."""
    with scene(tmp_path / "dry") as stage:
        names = list(dict.fromkeys(places_of(["undo"], cwd=stage.world.root, home=stage.world.home)))
    for name in {names[0], names[len(names) // 2], names[-1]}:
        with scene(tmp_path / name) as stage:
            monkeypatch.setenv("TAKEBACK_HOME", str(stage.world.home))
            done = crash.run(name, 1, ["takeback", "undo"], cwd=stage.world.root)
            assert done.returncode == crash.KILLED, (name, done)
            assert whats_wrong(stage, "save", stage.two, stage.one) == "", name


# At any moment, in a real process of its own.


def kill_after(world: Workspace, seconds: float, *command: str) -> int:
    with subprocess.Popen(
        [sys.executable, "-m", "takeback", *command],
        cwd=world.root,
        env=environment(world.home),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        time.sleep(seconds)
        process.kill()
    return process.returncode


def die_at_a_moment(folder: Path, command: str, part: float) -> str:
    """Kill the command after a part of the time that it usually takes."""
    with scene(folder / "usual") as stage:
        stage.prepare(command)
        begun = time.monotonic()
        done = run_from_the_start([command], cwd=stage.world.root, env=environment(stage.world.home))
        assert done.code == 0, done
        usual_s = time.monotonic() - begun
    with scene(folder / "killed") as stage:
        before, after = stage.prepare(command)
        kill_after(stage.world, usual_s * part, command)
        return whats_wrong(stage, "save", before, after)


@pytest.mark.parametrize("part", [0.5, 0.7, 0.8, 0.9])
def test_killed_at_some_moments_of_an_undo(tmp_path: Path, part: float) -> None:
    assert die_at_a_moment(tmp_path, "undo", part) == ""


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("command", COMMANDS)
def test_killed_at_random_moments(tmp_path: Path, command: str) -> None:
    chance = random.Random(20_26)
    for number in range(60):
        part = chance.uniform(0.3, 1.05)
        assert die_at_a_moment(tmp_path / str(number), command, part) == "", f"after {part:.3f} of its time"


# The agent itself.


def test_killed_while_the_agent_works(world: Workspace, tmp_path: Path) -> None:
    """What it did is not settled by guessing, the human's own stays, and a checkpoint still leads back."""
    world.human("app.py", "old")
    world.human("mine", "old")
    checkpoint = world.save()
    ready = tmp_path / "ready"
    script = f"echo new > app.py; echo x > made; touch {ready}; exec sleep 60"
    with subprocess.Popen(
        [sys.executable, "-m", "takeback", "run", "--", "sh", "-c", script],
        cwd=world.root,
        env=environment(world.home),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        deadline = time.monotonic() + 60
        while not ready.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
    world.human("mine", "edited by the human")
    world.do("status")
    assert world.run("undo").code in (0, 3)
    assert world.read("mine") == "edited by the human"
    world.do("restore", checkpoint)
    assert world.read("app.py") == "old"
    assert not world.has("made")
    world.do("redo")
    assert world.read("mine") == "edited by the human"
