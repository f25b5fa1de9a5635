"""A workspace for each test of the world, and a way to clean up after the nastiest of trees."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cli import Workspace


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Workspace]:
    """An empty workspace; it is removed at once, so that large trees do not pile up."""
    made = Workspace.at(tmp_path)
    yield made
    shutil.rmtree(tmp_path, ignore_errors=True)
