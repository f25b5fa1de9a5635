"""Where the tests of the store keep their journals."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from takeback.storage.journal.postgres.journal import PostgresJournal

STORE = "TAKEBACK_TEST_STORE"
"""The address of the database, for this process and its children."""


def opened(where: Path, dsn: str = "", **more: Any) -> PostgresJournal:
    """The journal of a workspace that is named after this folder, with its anchor in there."""
    return PostgresJournal(dsn or os.environ[STORE], str(where), where / "journal.anchor", **more)
