"""One server for all tests of a process, and a shop in it for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.resources.postgres.world import Server, Shop


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.stop()


@pytest.fixture
def shop(server: Server, tmp_path: Path) -> Iterator[Shop]:
    made = Shop(server, tmp_path / "work")
    yield made
    made.workspace.close()
