"""The adapter for CrewAI, with real crews and flows: the contract of adapters, and what only CrewAI has."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from takeback.errors import UsageError
from takeback.frameworks import supported
from tests.frameworks.contract import AdapterContract
from tests.frameworks.environments import ROOT, driven, python_of, variables

EXAMPLE = ROOT / "examples/crewai_agent.py"


class TestCrewAI(AdapterContract):
    framework = "crewai"
    words_are_memory = True


def test_it_serves_real_crews_and_flows(tmp_path: Path) -> None:
    done = driven("crewai", "tests.frameworks.crewai.scenes", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("passed ") == 14, done.stdout


def test_nothing_of_the_framework_is_imported_before_it_is_used() -> None:
    import takeback.frameworks.crewai

    assert "crewai" not in sys.modules  # it is not even installed here
    with pytest.raises(UsageError, match="crewai is not installed") as missing:
        _ = takeback.frameworks.crewai.protect_tools
    assert missing.value.hint == "pip install 'takeback[crewai]', which needs crewai>=1.15.30,<2"


@pytest.mark.parametrize(
    "version, works", [("1.15.29", False), ("1.15.30", True), ("1.16.0", True), ("2.0", False)]
)
def test_a_version_that_does_not_work_is_named(
    version: str, works: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _: version)
    if works:
        supported.require("crewai", supported.CREWAI)
        return
    with pytest.raises(UsageError, match=f"crewai {version} does not work") as refused:
        supported.require("crewai", supported.CREWAI)
    assert refused.value.hint == "pip install 'crewai>=1.15.30,<2'"


@pytest.mark.sweep  # each of its four processes reads CrewAI
def test_the_example_tells_the_truth(tmp_path: Path) -> None:
    command = [python_of("crewai"), str(EXAMPLE), str(tmp_path / "here")]
    done = subprocess.run(command, env=variables(), capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    lines = done.stdout.splitlines()
    assert "  booked: ['attic']" in lines and "  booked: ['attic', 'ballroom']" in lines
    assert lines[-2].startswith("  Took back 1 change: compensated book") and "Verified 1 of 1" in lines[-2]
    assert lines[-1] == "  booked: ['attic']; in the folder: ['mine.md']"
    again = subprocess.run(command, env=variables(), capture_output=True, text=True, timeout=100)
    assert again.returncode == 1 and "nothing was done" in again.stderr
