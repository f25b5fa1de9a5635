"""The middleware and the checkpoints, with real agents and workflows of agent-framework."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.frameworks.contract import PREPARED, AdapterContract, World
from tests.frameworks.environments import ROOT, driven, python_of, variables

pytestmark = pytest.mark.sweep

EXAMPLE = ROOT / "examples/agent_framework_agent.py"
WORKFLOW = "tests.frameworks.agent_framework.workflow"
LAZY = """
import sys
from takeback.frameworks import agent_framework
assert "agent_framework" not in sys.modules
agent_framework.TakebackMiddleware
assert "agent_framework" in sys.modules
"""


class TestAgentFramework(AdapterContract):
    framework = "agent_framework"

    def test_a_resumed_run_asks_only_what_is_left(self, world: World) -> None:
        world.killed("after book", "say", "prepare")
        assert (world.shop / "asked").read_text() == "xx"
        world.agent("resume", "prepare")
        assert (world.shop / "asked").read_text() == "xxx"

    def test_a_streamed_run_is_killed_and_streamed_again(self, world: World) -> None:
        world.killed("in book", "stream", "prepare")
        account = world.agent("stream", "prepare")
        assert account.results == PREPARED and account.said == ["prepare", "done"]
        assert world.rooms == ["attic"] and world.files == ["a.txt"]

    @pytest.mark.parametrize("when", ["in book", "after book"])
    def test_a_workflow_is_killed_resumed_and_taken_back(self, when: str, world: World) -> None:
        world.set(DIE=when)
        assert driven("agent_framework", WORKFLOW, "run").returncode == -9
        world.set(DIE="")
        done = driven("agent_framework", WORKFLOW, "resume")
        assert done.returncode == 0, done.stderr
        assert world.rooms == ["attic", "ballroom"] and world.files == ["a.txt", "b.txt"]
        (world.work / "mine.txt").write_text("my own")
        done = driven("agent_framework", WORKFLOW, "back")
        assert done.returncode == 0, done.stderr
        assert world.rooms == ["attic"] and world.files == ["a.txt", "mine.txt"]
        done = driven("agent_framework", WORKFLOW, "resume")
        assert done.returncode == 0, done.stderr
        assert world.rooms == ["attic", "ballroom"] and world.files == ["a.txt", "b.txt", "mine.txt"]


@pytest.mark.parametrize(
    "scene",
    [
        "an_agent_without_a_session_is_refused",
        "a_refusal_is_recorded_and_told",
        "what_a_rule_forbids_is_told_to_the_model",
        "the_own_approval_of_a_tool_counts",
        "a_session_that_the_host_keeps_goes_on",
        "a_consumer_that_leaves_early_pauses_the_turn",
        "what_a_tool_returned_comes_back_as_it_was",
        "a_checkpoint_storage_says_what_those_of_the_framework_say",
        "a_type_that_is_not_allowed_is_refused",
    ],
)
def test_what_is_special(scene: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    World("agent_framework", tmp_path, monkeypatch)
    done = driven("agent_framework", "tests.frameworks.agent_framework.special", scene)
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_of_the_framework_is_imported_before_it_is_used() -> None:
    command = [python_of("agent_framework"), "-W", "default", "-c", LAZY]
    done = subprocess.run(command, env=variables(), capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "ExperimentalWarning" not in done.stderr, done.stderr


def test_the_example_tells_the_truth(tmp_path: Path) -> None:
    command = [python_of("agent_framework"), str(EXAMPLE), str(tmp_path / "here")]
    done = subprocess.run(command, env=variables(), capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    lines = done.stdout.splitlines()
    assert "  booked: ['attic']" in lines and "  booked: ['attic', 'ballroom']" in lines
    assert lines[-2].startswith("  Took back 1 change: compensated book") and "Verified 1 of 1" in lines[-2]
    assert lines[-1] == "  booked: ['attic']; in the folder: ['mine.md']"
