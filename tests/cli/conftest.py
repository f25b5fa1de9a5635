"""Two ways to call the command line: in this process, for its words; and in its own, for all that is a process's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from takeback.cli import main
from tests.world.cli import Result, Workspace

from .inside import Inside

Call = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one."""
    made = tmp_path / "work"
    made.mkdir()
    monkeypatch.chdir(made)
    return made


@pytest.fixture
def call(folder: Path, capfd: pytest.CaptureFixture[str]) -> Call:
    """Call the command line in this process: what it prints and its exit code are those of a real call."""

    def call(*words: str) -> Result:
        capfd.readouterr()
        with pytest.raises(SystemExit) as stop:
            main(words)
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        assert isinstance(stop.value.code, int | None)
        return Result(stop.value.code or 0, out, err)

    return call


@pytest.fixture
def world(tmp_path: Path) -> Workspace:
    """A workspace whose commands run in processes of their own."""
    made = Workspace.at(tmp_path)
    made.human("plan.md", "old\n")
    return made


@pytest.fixture
def inside(tmp_path: Path) -> Inside:
    """A workspace whose commands are calls in this process."""
    made = Inside(tmp_path / "work", tmp_path / "state")
    made.root.mkdir()
    made.human("plan.md", "old\n")
    return made
