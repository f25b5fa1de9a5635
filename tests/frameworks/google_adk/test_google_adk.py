"""The plugin and the session service, with real apps of Google ADK: the contract of adapters, and what is special."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.frameworks.contract import AdapterContract, World
from tests.frameworks.environments import ROOT, driven, python_of, variables

pytestmark = pytest.mark.sweep

EXAMPLE = ROOT / "examples/google_adk_agent.py"
LAZY = """
import sys
from takeback.frameworks import google_adk
assert "google.adk" not in sys.modules
google_adk.TakebackPlugin
assert "google.adk" in sys.modules
"""


class TestGoogleADK(AdapterContract):
    framework = "google_adk"

    def test_a_failure_that_the_model_was_told_is_not_tried_again(self, world: World) -> None:
        """ADK does not resume an invocation that the error of a tool ended: its human asks again."""
        (world.shop / "closed").touch()
        assert "closed" in world.agent("say", "twice").error
        world.agent("say", "twice")
        assert world.rooms == ["attic", "attic"]

    def test_a_refusal_is_told_to_the_model(self, world: World) -> None:
        world.agent("say", "pay")
        account = world.agent("answer", "no")
        assert account.results == [["pay", "error"]] and account.said == ["pay", "done"]

    def test_a_rewound_session_goes_on(self, world: World) -> None:
        for word in ("prepare", "both", "fail"):
            world.agent("say", word)
        assert world.agent("back", "prepare").verdict == "clean"
        assert world.agent("back", "prepare").verdict in ("clean", "nothing")
        assert world.files == ["a.txt"] and world.rooms == ["attic"]
        world.agent("say", "pay")
        assert world.agent("answer", "yes").results[2:] == [["pay", "ok"]]


@pytest.mark.parametrize(
    "scene",
    [
        "a_session_service_says_what_that_of_adk_says",
        "a_value_that_json_lacks_is_refused",
        "tools_in_a_thread_pool_know_their_call",
        "a_callback_that_fails_leaves_no_call_at_work",
        "a_consumer_that_leaves_early_pauses_the_turn",
        "it_works_with_any_session_service",
        "what_a_rule_forbids_is_told_to_the_model",
    ],
)
def test_what_is_special(scene: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    World("google_adk", tmp_path, monkeypatch)
    done = driven("google_adk", "tests.frameworks.google_adk.special", scene)
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_of_the_framework_is_imported_before_it_is_used() -> None:
    command = [python_of("google_adk"), "-c", LAZY]
    done = subprocess.run(command, env=variables(), capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


def test_the_example_tells_the_truth(tmp_path: Path) -> None:
    command = [python_of("google_adk"), str(EXAMPLE), str(tmp_path / "here")]
    done = subprocess.run(command, env=variables(), capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    lines = done.stdout.splitlines()
    assert "  booked: ['attic']" in lines and "  booked: ['attic', 'ballroom']" in lines
    assert lines[-2].startswith("  Took back 1 change: compensated book") and "Verified 1 of 1" in lines[-2]
    assert lines[-1] == "  booked: ['attic']; in the folder: ['mine.md']"
