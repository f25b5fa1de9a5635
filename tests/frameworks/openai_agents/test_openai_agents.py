"""OpenAI Agents: the contract of adapters, and what only this framework has."""

from __future__ import annotations

import importlib.metadata
import subprocess
from pathlib import Path

import pytest

from takeback.errors import UsageError
from takeback.frameworks import supported
from tests.frameworks.contract import PREPARED, AdapterContract, World
from tests.frameworks.environments import ROOT, driven, python_of, variables

EXAMPLE = ROOT / "examples/openai_agents_agent.py"
SCENES = 20


class TestOpenAIAgents(AdapterContract):
    framework = "openai_agents"

    @pytest.mark.sweep
    def test_equal_ids_of_two_messages_are_those_of_two_calls(self, world: World) -> None:
        """The runner itself drops a call whose id it knows, without Takeback too, and asks its model for ever."""
        world.set(IDS="repeated", BARE="1")
        done = driven(self.framework, "tests.frameworks.openai_agents.agent", "say", "twice")
        assert "MaxTurnsExceeded" in done.stderr and world.rooms == ["attic"]

    @pytest.mark.parametrize(
        "first, then", [("stream", "resume"), pytest.param("say", "restream", marks=pytest.mark.sweep)]
    )
    def test_a_killed_stream_is_resumed(self, first: str, then: str, world: World) -> None:
        world.killed("in book", first, "prepare")
        account = world.agent(then, "prepare")
        assert account.results == PREPARED and account.said == ["prepare", "done"]
        assert world.rooms == ["attic"] and world.files == ["a.txt"]

    @pytest.mark.parametrize("first", ["stream", pytest.param("say", marks=pytest.mark.sweep)])
    def test_a_turn_that_was_killed_in_its_first_round_is_resumed(self, first: str, world: World) -> None:
        world.killed("in book", first, "both")
        account = world.agent("resume", "both")
        assert account.said == ["both", "done"] and len(account.results) == 2
        assert world.rooms == ["ballroom"] and world.files == ["b.txt"]

    @pytest.mark.parametrize("shape", ["handoff", "tool"])
    def test_other_agents_are_protected_too(self, shape: str, world: World) -> None:
        world.set(SHAPE=shape)
        world.killed("in book", "say", "prepare")
        account = world.agent("resume", "prepare")
        assert account.said == ["prepare", "done"] and world.rooms == ["attic"]
        assert world.agent("say", "pay").asked == "pay"
        assert world.agent("answer", "yes").said[-1] == "done"
        assert world.rows("payments") == [{"amount": 7}]


def test_scenes(tmp_path: Path) -> None:
    done = driven("openai_agents", "tests.frameworks.openai_agents.scenes", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("passed ") == SCENES, done.stdout


def test_nothing_of_the_framework_is_imported_before_it_is_used() -> None:
    program = "import sys, takeback.frameworks.openai_agents; sys.exit('agents' in sys.modules)"
    command = [python_of("openai_agents"), "-c", program]
    assert subprocess.run(command, env=variables(), timeout=60).returncode == 0


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "0.30.1")
    with pytest.raises(UsageError, match=r"openai-agents 0\.30\.1 does not work"):
        supported.require("openai-agents", supported.OPENAI_AGENTS)
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "0.24.0")
    supported.require("openai-agents", supported.OPENAI_AGENTS)


@pytest.mark.sweep  # each of its processes reads the framework
def test_the_example_tells_the_truth(tmp_path: Path) -> None:
    command = [python_of("openai_agents"), str(EXAMPLE), str(tmp_path / "here")]
    done = subprocess.run(command, env=variables(), capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    lines = done.stdout.splitlines()
    assert "  booked: ['attic']" in lines and "  booked: ['attic', 'ballroom']" in lines
    assert lines[-3].startswith("  Took back 1 change: compensated book") and "Verified 1 of 1" in lines[-3]
    assert lines[-1] == "  booked: ['attic']; in the folder: ['mine.md']"
    again = subprocess.run(command, env=variables(), capture_output=True, text=True, timeout=100)
    assert again.returncode == 1 and "nothing was done" in again.stderr
