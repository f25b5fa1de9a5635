"""What every adapter has to show, with its real framework and a scripted model.

tests/frameworks/driver.py says what a driver does. What only one framework has is tested beside its driver.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.frameworks.driver import Account
from tests.frameworks.environments import driven


class World:
    """The folder of an agent, the other systems that its tools reach, and the driver of its framework."""

    def __init__(self, framework: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.framework, self.work, self.shop = framework, folder / "work", folder / "shop"
        self.work.mkdir()
        self.shop.mkdir()
        self._monkeypatch = monkeypatch
        self.set(WORK=str(self.work), SHOP=str(self.shop))

    def set(self, **values: str) -> None:
        for name, value in values.items():
            self._monkeypatch.setenv(name, value)

    def agent(self, *words: str) -> Account:
        """Run the driver in a process of its own, and return what it tells."""
        done = driven(self.framework, f"tests.frameworks.{self.framework}.agent", *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return Account(**json.loads(done.stdout.splitlines()[-1]))

    def killed(self, when: str, *words: str) -> None:
        self.set(DIE=when)
        done = driven(self.framework, f"tests.frameworks.{self.framework}.agent", *words)
        assert done.returncode == -9, done.stdout + done.stderr
        self._monkeypatch.delenv("DIE")

    def stopped(self, *words: str) -> str:
        """Run the driver, and return the words of the RollbackIncomplete that it ended with."""
        done = driven(self.framework, f"tests.frameworks.{self.framework}.agent", *words)
        assert done.returncode == 1 and "RollbackIncomplete" in done.stderr, done.stdout + done.stderr
        return done.stderr

    def rows(self, name: str) -> list[dict[str, Any]]:
        place = self.shop / name
        return json.loads(place.read_text()) if place.exists() else []

    @property
    def rooms(self) -> list[str]:
        return [row["room"] for row in self.rows("bookings")]

    @property
    def wanted(self) -> int:
        """How many calls the model has asked for, without those of recorded answers."""
        place = self.shop / "wanted"
        return len(place.read_text().splitlines()) if place.exists() else 0

    @property
    def files(self) -> list[str]:
        return sorted(os.listdir(self.work))


PREPARED = [["write", "ok"], ["book", "ok"]]


class AdapterContract:
    """The suite. A test module of a framework has a subclass with its name, and tests of what is its own."""

    framework: ClassVar[str]
    words_are_memory: ClassVar[bool] = False
    """Whether the conversation is in the memory of the thread, and so goes back with whatever can be taken back."""

    @pytest.fixture
    def world(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
        return World(self.framework, tmp_path, monkeypatch)

    @pytest.mark.parametrize("when", ["in book", "after book"])
    def test_a_call_is_made_once_over_a_kill(self, when: str, world: World) -> None:
        world.killed(when, "say", "prepare")
        assert world.rooms == ["attic"]
        account = world.agent("resume", "prepare")
        assert account.results == PREPARED and account.said == ["prepare", "done"]
        assert world.rooms == ["attic"] and world.files == ["a.txt"]

    @pytest.mark.sweep
    def test_without_takeback_the_same_call_is_made_twice(self, world: World) -> None:
        world.set(BARE="1")
        world.killed("in book", "say", "prepare")
        world.agent("resume", "prepare")
        assert world.rooms == ["attic", "attic"]

    def test_a_payment_is_approved_in_another_process(self, world: World) -> None:
        assert world.agent("say", "pay").asked == "pay"
        assert world.rows("payments") == []
        account = world.agent("answer", "yes")
        assert account.results == [["pay", "ok"]] and account.asked == ""
        assert world.rows("payments") == [{"amount": 7}]

    def test_a_payment_is_refused(self, world: World) -> None:
        world.agent("say", "pay")
        world.agent("answer", "no")
        assert world.rows("payments") == []

    def test_going_back_past_a_payment_stops_and_then_passes_over_it(self, world: World) -> None:
        world.agent("say", "prepare")
        world.agent("say", "pay")
        world.agent("answer", "yes")
        world.agent("say", "both")
        told = world.stopped("back", "prepare")
        assert re.search(r"kept \S*pay", told) and "go back once more" in told
        assert world.rooms == ["attic"] and world.files == ["a.txt"]
        if self.words_are_memory:
            assert "Took back no changes" in world.stopped("back", "prepare")
            return
        # What can be taken back is; the conversation stays, and goes back when that is asked for again. The payment
        # stands, and that is said again.
        account = world.agent("back", "prepare")
        assert account.verdict == "partial" and account.said == ["prepare", "done"]
        assert world.rows("payments") == [{"amount": 7}]

    def test_going_back_takes_the_world_along(self, world: World) -> None:
        world.agent("say", "prepare")
        (world.work / "mine.txt").write_text("my own")
        account = world.agent("say", "both")
        assert account.said == ["prepare", "done", "both", "done"] and sorted(account.results[2:]) == [
            ["book", "ok"],
            ["write", "ok"],
        ]
        assert world.files == ["a.txt", "b.txt", "mine.txt"] and world.rooms == ["attic", "ballroom"]
        account = world.agent("back", "prepare")
        assert account.verdict == "clean" and account.said == ["prepare", "done"]
        assert account.results == PREPARED
        assert world.files == ["a.txt", "mine.txt"] and world.rooms == ["attic"]
        # The same turn again is a new attempt: nothing of the first one is taken for it, nor any answer of the model.
        wanted = world.wanted
        account = world.agent("say", "both")
        assert world.wanted == (wanted + 2 if wanted else 0)
        assert account.said == ["prepare", "done", "both", "done"]
        assert world.files == ["a.txt", "b.txt", "mine.txt"] and world.rooms == ["attic", "ballroom"]

    def test_what_a_failing_tool_left_goes_back_with_its_turn(self, world: World) -> None:
        world.agent("say", "prepare")
        account = world.agent("say", "fail")
        told = [account.error, *(kind for tool, kind in account.results if tool == "spoil")]
        assert "full" in account.error or "error" in told, account
        assert world.files == ["a.txt", "c.txt", "d.txt"]
        assert world.agent("back", "prepare").verdict == "clean"
        assert world.files == ["a.txt"] and world.rooms == ["attic"]

    stops_at_errors: ClassVar[bool] = False
    """True if the error of a tool ends the turn; False if the model is told."""

    def test_a_failure_that_the_model_was_told_is_not_tried_again(self, world: World) -> None:
        (world.shop / "closed").touch()
        if self.stops_at_errors:
            assert "closed" in world.agent("say", "twice").error
            world.killed("in book", "resume", "twice")  # in the same call: nothing came after it
            world.agent("resume", "twice")
            assert world.rooms == ["attic", "attic"]
            return
        world.killed(
            "in book", "say", "twice"
        )  # in the second call, which the model asked for when the first failed
        assert world.rooms == ["attic"]
        world.agent("resume", "twice")
        assert world.rooms == ["attic"]

    @pytest.mark.sweep
    def test_equal_ids_of_two_messages_are_those_of_two_calls(self, world: World) -> None:
        world.set(IDS="repeated")
        world.killed("in book", "say", "twice")
        world.agent("resume", "twice")
        assert world.rooms == ["attic", "attic"]
        world.agent("say", "both")
        assert world.rooms == ["attic", "attic", "ballroom"] and world.files == ["b.txt"]

    def test_a_streamed_turn_is_recorded_alike(self, world: World) -> None:
        account = world.agent("stream", "prepare")
        assert account.said == ["prepare", "done"] and account.results == PREPARED
        assert world.files == ["a.txt"] and world.rooms == ["attic"]
        account = world.agent("say", "both")
        assert account.said == ["prepare", "done", "both", "done"]
        assert world.agent("back", "prepare").verdict == "clean"
        assert world.files == ["a.txt"] and world.rooms == ["attic"]

    def test_a_cancelled_turn_is_neither_lost_nor_taken_back(self, world: World) -> None:
        world.agent("say", "prepare")
        world.agent("cancel", "linger")
        assert world.files == ["a.txt", "e.txt"]
        assert world.agent("back", "prepare").verdict == "clean"
        assert world.files == ["a.txt"] and world.rooms == ["attic"]
