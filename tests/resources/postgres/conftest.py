"""A shop for each test, in one server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.resources.postgres.world import Server, Shop


@pytest.fixture
def shop(server: Server, tmp_path: Path) -> Iterator[Shop]:
    made = Shop(server, tmp_path / "work")
    yield made
    made.workspace.close()
