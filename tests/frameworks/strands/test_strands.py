"""The adapter for Strands, with real agents: the contract of adapters, and what only Strands has."""

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

pytestmark = pytest.mark.sweep

EXAMPLE = ROOT / "examples/strands_agent.py"


class TestStrands(AdapterContract):
    framework = "strands"


def test_it_serves_real_agents(tmp_path: Path) -> None:
    done = driven("strands", "tests.frameworks.strands.scenes", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("passed ") == 7, done.stdout


def test_nothing_of_the_framework_is_imported_before_it_is_used() -> None:
    import takeback.frameworks.strands

    assert "strands" not in sys.modules  # it is not even installed here
    with pytest.raises(UsageError, match="strands-agents is not installed") as missing:
        _ = takeback.frameworks.strands.Takeback
    assert missing.value.hint == "pip install 'takeback[strands]', which needs strands-agents>=1.62,<2"


@pytest.mark.parametrize(
    "version, works", [("1.61.9", False), ("1.62.0", True), ("1.70.1", True), ("2.0", False)]
)
def test_a_version_that_does_not_work_is_named(
    version: str, works: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _: version)
    if works:
        supported.require("strands", supported.STRANDS)
        return
    with pytest.raises(UsageError, match=f"strands-agents {version} does not work") as refused:
        supported.require("strands", supported.STRANDS)
    assert refused.value.hint == "pip install 'strands-agents>=1.62,<2'"


def test_the_example_tells_the_truth(tmp_path: Path) -> None:
    command = [python_of("strands"), str(EXAMPLE), str(tmp_path / "here")]
    done = subprocess.run(command, env=variables(), capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    lines = done.stdout.splitlines()
    assert "  booked: ['attic']" in lines and "  booked: ['attic', 'ballroom']" in lines
    assert lines[-3].startswith("  Took back 1 change: compensated book") and "Verified 1 of 1" in lines[-3]
    assert lines[-2] == "  the agent remembers 4 messages"
    assert lines[-1] == "  booked: ['attic']; in the folder: ['mine.md']"
    again = subprocess.run(command, env=variables(), capture_output=True, text=True, timeout=100)
    assert again.returncode == 1 and "nothing was done" in again.stderr
