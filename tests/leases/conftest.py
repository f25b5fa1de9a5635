from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TAKEBACK_HOME", str(tmp_path / "state"))
    made = tmp_path / "work"
    (made / "src").mkdir(parents=True)
    (made / "src/a.py").write_text("one\n")
    return made


@pytest.fixture
def tb(root: Path) -> Iterator[Workspace]:
    with open_workspace(root, watching=False) as tb:
        yield tb
        assert tb.verify() == []


@pytest.fixture
def other(tb: Workspace, root: Path) -> Iterator[Workspace]:
    """The same workspace, as another agent has it open."""
    with open_workspace(root, watching=False) as other:
        yield other
