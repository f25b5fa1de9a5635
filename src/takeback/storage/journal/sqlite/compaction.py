"""Compacting a journal in a SQLite file, which gets shorter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw

from takeback.storage.journal.compaction import StoredCompaction
from takeback.system.crash_points import crash_point, reach

if TYPE_CHECKING:
    from takeback.storage.journal.sqlite.journal import SqliteJournal

SHRINK_BYTES_MAX = 512 << 20
"""A larger file keeps its free room for new records: writing it again would let others wait for too long."""

SHRUNK = crash_point("compaction-shrunk")


class SqliteCompaction(StoredCompaction[apsw.Connection]):
    """The compaction of a journal in a file."""

    _journal: SqliteJournal

    def release(self) -> str:
        why = self._journal.shrink(SHRINK_BYTES_MAX)
        reach(SHRUNK)
        return why
