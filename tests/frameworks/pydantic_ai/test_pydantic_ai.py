"""The capability, with real agents of pydantic-ai: the contract of adapters, and what only this framework has."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.frameworks.contract import PREPARED, AdapterContract, World
from tests.frameworks.environments import ROOT, driven, python_of, variables

pytestmark = pytest.mark.sweep

EXAMPLE = ROOT / "examples/pydantic_ai_agent.py"
LAZY = """
import sys
from takeback.frameworks import pydantic_ai
assert not {name.partition(".")[0] for name in sys.modules} & {"pydantic", "pydantic_ai"}
pydantic_ai.Takeback
assert "pydantic_ai" in sys.modules
"""


class TestPydanticAI(AdapterContract):
    framework = "pydantic_ai"
    stops_at_errors = True

    def test_a_resumed_turn_asks_only_what_is_left(self, world: World) -> None:
        world.killed("after book", "say", "prepare")
        assert (world.shop / "asked").read_text() == "xx"
        world.agent("resume", "prepare")
        assert (world.shop / "asked").read_text() == "xxx"

    @pytest.mark.parametrize("events", ["", "1"])
    def test_a_streamed_turn_is_killed_and_streamed_again(self, events: str, world: World) -> None:
        world.set(EVENTS=events)
        world.killed("in book", "stream", "prepare")
        account = world.agent("stream", "prepare")
        assert account.results == PREPARED and account.said == ["prepare", "done"]
        assert world.rooms == ["attic"] and world.files == ["a.txt"]

    def test_a_refused_payment_is_told_as_denied(self, world: World) -> None:
        world.agent("say", "pay")
        account = world.agent("answer", "no")
        assert account.results == [["pay", "error"]] and account.said == ["pay", "done"]


@pytest.mark.parametrize(
    "scene",
    [
        "a_bad_answer_does_not_come_again_for_ever",
        "a_retry_that_the_model_was_told_is_not_tried_again",
        "a_declaration_is_found_in_nested_toolsets",
        "a_refusal_is_recorded_and_told",
        "what_a_rule_forbids_is_told_to_the_model",
        "going_back_into_a_turn_takes_back_its_later_calls",
        "an_argument_that_json_lacks_is_recorded_as_it_was_given",
        "what_a_tool_returned_comes_back_as_it_was",
    ],
)
def test_what_is_special(scene: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    World("pydantic_ai", tmp_path, monkeypatch)
    done = driven("pydantic_ai", "tests.frameworks.pydantic_ai.special", scene)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_in_the_readme_runs(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    (tools,) = re.findall(r"<!-- save as: calendar_tools.py -->\n```python\n(.*?)```", text, re.DOTALL)
    (example,) = re.findall(r"```python\n(import calendar_tools\nfrom pydantic_ai .*?)```", text, re.DOTALL)
    (tmp_path / "calendar_tools.py").write_text(tools)
    (tmp_path / "example.py").write_text(example)
    command = [python_of("pydantic_ai"), "example.py"]
    done = subprocess.run(command, cwd=tmp_path, env=variables(), capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_of_the_framework_is_imported_before_it_is_used() -> None:
    command = [python_of("pydantic_ai"), "-c", LAZY]
    done = subprocess.run(command, env=variables(), capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


def test_the_example_tells_the_truth(tmp_path: Path) -> None:
    command = [python_of("pydantic_ai"), str(EXAMPLE), str(tmp_path / "here")]
    done = subprocess.run(command, env=variables(), capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    lines = done.stdout.splitlines()
    assert "  booked: ['attic']" in lines and "  booked: ['attic', 'ballroom']" in lines
    assert lines[-3].startswith("  Took back 1 change: compensated book") and "Verified 1 of 1" in lines[-3]
    assert lines[-1] == "  booked: ['attic']; in the folder: ['mine.md']"
