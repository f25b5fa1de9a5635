"""The middleware, with a real agent of LangChain: the contract of adapters, and every durability of LangGraph."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.frameworks.contract import PREPARED, AdapterContract, World
from tests.frameworks.environments import ROOT, python_of, variables

EXAMPLE = ROOT / "examples/langgraph_agent.py"


class TestLangGraph(AdapterContract):
    framework = "langgraph"
    stops_at_errors = True

    @pytest.mark.parametrize(
        "when, durability, is_async",
        [("in book", "exit", "1"), ("after book", "async", "1"), ("after book", "exit", "")],
    )
    def test_each_durability(self, when: str, durability: str, is_async: str, world: World) -> None:
        world.set(DURABILITY=durability, ASYNC=is_async)
        world.killed(when, "say", "prepare")
        account = world.agent("resume", "prepare")
        assert account.results == PREPARED and account.said == ["prepare", "done"]
        assert world.rooms == ["attic"]

    def test_an_async_turn_is_refused(self, world: World) -> None:
        world.set(ASYNC="1")
        world.agent("say", "pay")
        assert world.agent("answer", "no").results == [["pay", "error"]]
        assert world.rows("payments") == []

    def test_going_back_again_changes_nothing(self, world: World) -> None:
        world.agent("say", "prepare")
        world.agent("say", "both")
        assert world.agent("back", "prepare").verdict == "clean"
        assert world.agent("back", "prepare").verdict in ("clean", "nothing")
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
