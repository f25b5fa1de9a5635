"""One server and one database for all tests of a process; each has a workspace of its own in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from takeback.storage.postgres.journal import PostgresJournal
from tests.resources.postgres.world import Server
from tests.storage.postgres.world import STORE, opened

Open = Callable[..., PostgresJournal]


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    made = Server()
    os.environ[STORE] = made.make(schema="")
    yield made
    del os.environ[STORE]
    made.stop()


@pytest.fixture
def journal(server: Server, tmp_path: Path) -> Iterator[PostgresJournal]:
    made = opened(tmp_path)
    yield made
    made.close()
