"""A workspace with an agent whose events go to a daemon, which ends with the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from takeback.daemon import control
from tests.world.cli import Workspace

from .agent import Agent


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Workspace]:
    made = Workspace.at(tmp_path)
    made.human("a.txt", "one\n")
    made.human("sub/b.txt", "two\n")
    yield made
    control.stop(made.home)


@pytest.fixture
def agent(world: Workspace) -> Agent:
    return Agent(world)
