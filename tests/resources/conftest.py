from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def tb(root: Path, tmp_path: Path) -> Iterator[Workspace]:
    """A workspace; afterwards its journal is sound."""
    with open_workspace(root, home=tmp_path / "state", watching=False) as made:
        yield made
        assert list(made.journal.check()) == []
        assert made.history.breaches == []
