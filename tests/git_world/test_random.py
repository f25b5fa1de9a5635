"""Two hundred commands of a clumsy agent on each of three histories, with checkpoints, and back through all of them.

The seeds are fixed. By default a part of it runs; `--all` runs everything.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import takeback

from .agent import HUMAN, Agent
from .histories import HISTORIES
from .picture import Picture, differences, unsound
from .repo import Repo
from .scene import sample

EVERY = 20
SEEDS = {"linear": 11, "branching": 12, "vendored": 13}


def wrong(before: Picture, after: Picture, *, of_human: bool) -> list[str]:
    """What is not as it was; what the human did meanwhile is left out, and what was wrong before."""
    found = [line for line in unsound(after) if line not in unsound(before)] + differences(before, after)
    return [line for line in found if not (of_human and _is_of_the_human(line))]


def _is_of_the_human(line: str) -> bool:
    return "worktree desk" in line or line.startswith(
        (f"ref main refs/heads/{HUMAN}:", f"reflog main logs/refs/heads/{HUMAN}:", "worktrees main:")
    )


class Human:
    """Commits on a branch of their own, in a worktree of their own, whenever it suits them."""

    def __init__(self, repo: Repo, place: Path) -> None:
        repo.git("worktree", "add", "-q", "-b", HUMAN, str(place), "main")
        self.desk = Repo(place, repo.clock)
        self.commits: list[str] = []

    def act(self) -> None:
        number = len(self.commits)
        self.commits.append(self.desk.commit(f"Human {number}", mine=f"human {number}\n"))

    def still_has_everything(self) -> bool:
        kept = self.desk.git("rev-list", HUMAN).split()
        return set(self.commits) <= set(kept) and self.desk.git("status", "--porcelain") == ""


def play(folder: Path, history: str, seed: int, count: int, *, with_human: bool) -> None:
    repo = HISTORIES[history](folder / "work")
    agent = Agent(repo, random.Random(seed))
    human = Human(repo, folder / "desk") if with_human else None
    with takeback.open(repo.root, home=folder / "state") as tb:
        marks = []
        for number in range(count):
            if number % EVERY == 0:
                marks.append((tb.save().id, repo.look(), number))
            if human and agent.chance.random() < 0.2:
                human.act()
            with tb.recording(f"command {number}"):
                agent.act()
        last = repo.look()
        for checkpoint, before, number in reversed(marks):
            report = tb.undo(to=checkpoint)
            told = "\n".join(agent.done) + f"\n{report}\nback at the checkpoint before command {number}"
            found = wrong(before, repo.look(), of_human=with_human)
            assert not found, "\n".join([*found[:20], told])
            assert human is None or human.still_has_everything(), told
        for _ in marks:
            tb.redo()
        found = wrong(last, repo.look(), of_human=with_human)
        assert not found, "\n".join([*found[:20], "after redoing all"])


@pytest.mark.parametrize("history", sample(list(HISTORIES), "vendored"))
def test_forty_commands_and_back(history: str, tmp_path: Path) -> None:
    play(tmp_path, history, SEEDS[history], 40, with_human=False)


def test_forty_commands_with_a_human_in_between(tmp_path: Path) -> None:
    play(tmp_path, "branching", 5, 40, with_human=True)


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "history, with_human",
    [
        *((history, True) for history in HISTORIES),
        ("linear", False),
        ("branching", False),
        ("vendored", False),
    ],
)
def test_two_hundred_commands_and_back(history: str, with_human: bool, tmp_path: Path) -> None:
    play(tmp_path, history, SEEDS[history], 200, with_human=with_human)


@pytest.mark.sweep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("history", HISTORIES)
def test_many_seeds(history: str, tmp_path: Path) -> None:
    for seed in range(100, 110):
        play(tmp_path / str(seed), history, seed, 60, with_human=False)


@pytest.mark.parametrize("history", HISTORIES)
def test_a_history_is_the_same_each_time(history: str, tmp_path: Path) -> None:
    one, two = (HISTORIES[history](tmp_path / name / "work") for name in "ab")
    tips = ("for-each-ref", "--format=%(refname) %(objectname)")
    skip = "refs/heads/main" if history == "branching" else ""
    first = [line for line in one.git(*tips).splitlines() if not line.startswith(skip or " ")]
    assert first == [line for line in two.git(*tips).splitlines() if not line.startswith(skip or " ")]
    assert int(one.git("rev-list", "--all", "--count")) > 30
    assert unsound(one.look()) == []
