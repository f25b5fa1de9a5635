"""The pytest plugin as a user has it: a test file of their own, run by a pytest of its own."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import takeback
from takeback import Workspace
from takeback.testing.chaos import World, assert_clean, assert_exactly_once, assert_taken_back
from takeback.testing.crash import child_environment
from tests.chaos import agents
from tests.chaos.office import office

TESTS = """
import pytest
from tests.chaos import agents
from tests.chaos.office import office

WITNESSES = dict(world=office.world, service=office.counts, reset=office.empty)

@pytest.mark.takeback_chaos(at="every call", faults=["exception", "answer lost"])
def test_sound(takeback_chaos):
    print(takeback_chaos(agents.sound, **WITNESSES))

@pytest.mark.takeback_chaos(at="every call", faults=["exception"], seed=4)
def test_numbered(takeback_chaos):
    takeback_chaos(agents.numbered, **WITNESSES)

def test_idle(takeback_chaos):
    pass

@pytest.mark.takeback_chaos(fault="exception")
def test_wrong(takeback_chaos):
    takeback_chaos(agents.sound, **WITNESSES)

@pytest.mark.takeback_workspace(store="disk")
def test_on_disk(takeback_workspace):
    assert takeback_workspace.state.exists()
"""


def run(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--strict-markers", *words],
        cwd=folder,
        env=child_environment(),
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


def test_a_users_tests(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    text = run(tmp_path, "-rA")
    assert "3 passed" in text and "1 failed" in text and "2 errors" in text, text
    assert "PASSED test_mine.py::test_sound" in text and "PASSED test_mine.py::test_on_disk" in text
    assert "ran no agent" in text
    assert "takeback_chaos has no option fault; it has at, faults" in text
    assert f"{agents.__file__}:" in text
    # What the failure prints repeats it, and nothing else.
    (command,) = set(re.findall(r"to repeat this round: pytest (.*)", text))
    again = run(tmp_path, *shlex.split(command))
    assert "1 failed" in again and "red is there 2 times, not once" in again


def test_the_plugin_imports_nothing_until_it_is_used() -> None:
    code = (
        "import sys, pytest, takeback; before = set(sys.modules); import takeback.testing.plugin;"
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=child_environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['takeback.testing', 'takeback.testing.plugin']"


def test_the_assertions_alone(takeback_workspace: Workspace) -> None:
    office.empty()
    world = World(takeback_workspace.root, office.world)
    with pytest.raises(ValueError, match="stop"), takeback_workspace.run("mine") as run:
        (takeback_workspace.root / "file").write_text("new")
        run.call(agents.book, "red")
        with pytest.raises(AssertionError, match=r"world\['notes'\]\['red'\] was '' and is"):
            assert_taken_back(world)
        with pytest.raises(AssertionError, match="the run itself is still open"):
            assert_clean(run)
        raise ValueError("stop")
    assert_taken_back(world)
    assert_clean(run)
    with takeback_workspace.run("twice") as run:
        run.call(agents.book, "red")
        assert_exactly_once(office.counts)
        run.call(agents.book, "red")
    with pytest.raises(AssertionError, match="red is there 2 times, not once"):
        assert_exactly_once(office.counts)
    assert_clean(run)
    office.empty()


def test_a_partial_rollback_is_not_clean(takeback_workspace: Workspace) -> None:
    office.empty()
    run = takeback_workspace.run("blind")
    with pytest.raises(takeback.RollbackIncomplete), run:
        run.call(agents.book_blindly, "red")
        raise ValueError
    with pytest.raises(AssertionError, match="its rollback is partial"):
        assert_clean(run)
    office.empty()
