"""AutoGen: the contract of adapters, and what only this framework has."""

from __future__ import annotations

import importlib.metadata
import subprocess
from pathlib import Path

import pytest

from takeback.errors import UsageError
from takeback.frameworks import supported
from tests.frameworks.contract import PREPARED, AdapterContract, World
from tests.frameworks.environments import ROOT, driven, python_of, variables

pytestmark = pytest.mark.sweep

EXAMPLE = ROOT / "examples/autogen_agent.py"
SCENES = 11


class TestAutoGen(AdapterContract):
    framework = "autogen"

    @pytest.mark.parametrize("first, then", [("stream", "resume"), ("say", "stream")])
    def test_a_killed_stream_is_resumed(self, first: str, then: str, world: World) -> None:
        world.killed("in book", first, "prepare")
        account = world.agent(then, "prepare")
        assert account.results == PREPARED and account.said == ["prepare", "done"]
        assert world.rooms == ["attic"] and world.files == ["a.txt"]


def test_scenes(tmp_path: Path) -> None:
    done = driven("autogen", "tests.frameworks.autogen.scenes", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("passed ") == SCENES, done.stdout


def test_nothing_of_the_framework_is_imported_before_it_is_used() -> None:
    program = "import sys, takeback.frameworks.autogen; sys.exit('autogen_core' in sys.modules)"
    command = [python_of("autogen"), "-c", program]
    assert subprocess.run(command, env=variables(), timeout=60).returncode == 0


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "0.4.9")
    with pytest.raises(UsageError, match=r"autogen-agentchat 0\.4\.9 does not work"):
        supported.require("autogen", supported.AUTOGEN)
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "0.7.5")
    supported.require("autogen", supported.AUTOGEN)


def test_the_example_tells_the_truth(tmp_path: Path) -> None:
    command = [python_of("autogen"), str(EXAMPLE), str(tmp_path / "here")]
    done = subprocess.run(command, env=variables(), capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    lines = done.stdout.splitlines()
    assert "  booked: ['attic']" in lines and "  booked: ['attic', 'ballroom']" in lines
    assert lines[-3].startswith("  Took back 1 change: compensated book") and "Verified 1 of 1" in lines[-3]
    assert lines[-1] == "  booked: ['attic']; in the folder: ['mine.md']"
    again = subprocess.run(command, env=variables(), capture_output=True, text=True, timeout=100)
    assert again.returncode == 1 and "nothing was done" in again.stderr
