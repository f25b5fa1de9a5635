"""The middleware, with a real agent of LangChain: once over a kill, approved elsewhere, taken back with its words."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.frameworks.environments import ROOT, driven, python_of, variables

MODULE = "tests.frameworks.langgraph.agent"
EXAMPLE = ROOT / "examples/langgraph_agent.py"


class World:
    """The folder of an agent, and the other systems that its tools reach."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.work, self.shop = folder / "work", folder / "shop"
        self.work.mkdir()
        self.shop.mkdir()
        self._monkeypatch = monkeypatch
        self.set(WORK=str(self.work), SHOP=str(self.shop))

    def set(self, **values: str) -> None:
        for name, value in values.items():
            self._monkeypatch.setenv(name, value)

    def agent(self, *words: str) -> list[str]:
        """Run the agent in a process of its own, and return the lines that it prints."""
        done = driven("langgraph", MODULE, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    def killed(self, when: str, *words: str) -> None:
        self.set(DIE=when)
        done = driven("langgraph", MODULE, *words)
        assert done.returncode == -9, done.stdout + done.stderr
        self._monkeypatch.delenv("DIE")

    def rows(self, name: str) -> list[dict[str, Any]]:
        place = self.shop / name
        return json.loads(place.read_text()) if place.exists() else []

    @property
    def rooms(self) -> list[str]:
        return [row["room"] for row in self.rows("bookings")]

    @property
    def files(self) -> list[str]:
        return sorted(os.listdir(self.work))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "when, durability, is_async",
    [
        ("in book", "sync", ""),
        ("in book", "exit", "1"),
        ("after book", "async", "1"),
        ("after book", "exit", ""),
    ],
)
def test_a_call_is_made_once_over_a_kill(when: str, durability: str, is_async: str, world: World) -> None:
    world.set(DURABILITY=durability, ASYNC=is_async)
    world.killed(when, "say", "prepare")
    assert world.rooms == ["attic"]
    lines = world.agent("resume", "prepare")
    assert lines[0].endswith("wrote a.txt; booked attic; done") and lines[1] == "write:success book:success"
    assert world.rooms == ["attic"]


def test_a_payment_is_approved_in_another_process(world: World) -> None:
    assert world.agent("say", "pay")[0] == "asked pay"
    assert world.rows("payments") == []
    assert world.agent("answer", "yes")[0] == "pay; paid 7; done"
    assert world.rows("payments") == [{"amount": 7}]


def test_a_payment_is_refused(world: World) -> None:
    world.set(ASYNC="1")
    world.agent("say", "pay")
    assert world.agent("answer", "no")[-1] == "pay:error"
    assert world.rows("payments") == []


def test_going_back_takes_the_world_along(world: World) -> None:
    world.agent("say", "prepare")
    (world.work / "mine.txt").write_text("my own")
    world.agent("say", "both")
    assert world.files == ["a.txt", "b.txt", "mine.txt"] and world.rooms == ["attic", "ballroom"]
    lines = world.agent("back", "prepare")
    assert lines[:2] == ["clean", "prepare; wrote a.txt; booked attic; done"]
    assert world.files == ["a.txt", "mine.txt"] and world.rooms == ["attic"]
    assert world.agent("back", "prepare")[0] in ("clean", "nothing")  # once more changes nothing
    # The same turn again is a new attempt: nothing of the first one is taken for it.
    assert world.agent("say", "both")[1] == "write:success book:success write:success book:success"
    assert world.files == ["a.txt", "b.txt", "mine.txt"] and world.rooms == ["attic", "ballroom"]


def test_what_a_failing_tool_left_goes_back_with_its_turn(world: World) -> None:
    world.agent("say", "prepare")
    failed = driven("langgraph", MODULE, "say", "fail")
    assert failed.returncode and "the disk of the other system is full" in failed.stderr
    assert world.files == ["a.txt", "c.txt", "d.txt"]
    assert world.agent("back", "prepare")[0] == "clean"
    assert world.files == ["a.txt"] and world.rooms == ["attic"]


def test_the_example_tells_the_truth(tmp_path: Path) -> None:
    command = [python_of("langgraph"), str(EXAMPLE), str(tmp_path / "here")]
    done = subprocess.run(command, env=variables(), capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    lines = done.stdout.splitlines()
    assert "  booked: ['attic']" in lines and "  booked: ['attic', 'ballroom']" in lines
    assert lines[-3].startswith("  Took back 1 change: compensated book") and "Verified 1 of 1" in lines[-3]
    assert lines[-1] == "  booked: ['attic']; in the folder: ['mine.md']"
    again = subprocess.run(command, env=variables(), capture_output=True, text=True, timeout=100)
    assert again.returncode == 1 and "nothing was done" in again.stderr
