"""Each test has a workspace of its own, in one database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from takeback.storage.journal.postgres.journal import PostgresJournal
from tests.resources.postgres.world import Server
from tests.storage.postgres.world import opened

Open = Callable[..., PostgresJournal]


@pytest.fixture
def journal(server: Server, tmp_path: Path) -> Iterator[PostgresJournal]:
    made = opened(tmp_path)
    yield made
    made.close()
