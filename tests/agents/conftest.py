"""A project under protection, for agents to work in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from takeback.workspace.opening import open_workspace
from takeback.workspace.workspace import Workspace


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with a little in it."""
    made = tmp_path / "desk"
    made.mkdir()
    (made / "app.py").write_text("print('one')\n")
    (made / "old.txt").write_text("old\n")
    return made


@pytest.fixture
def tb(desk: Path) -> Iterator[Workspace]:
    with open_workspace(desk, watching=False) as opened:
        yield opened
