"""What the contracts of all that lives in a journal share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from takeback.ports.journal import Journal


class OfJournal:
    """Subclass a contract, with a name that pytest collects."""

    def open(self, where: Path) -> Journal:
        """The journal that is kept in this folder; the same one for the same folder."""
        raise NotImplementedError

    @pytest.fixture
    def journal(self, tmp_path: Path) -> Iterator[Journal]:
        """One that is sound afterwards."""
        journal = self.open(tmp_path)
        yield journal
        assert list(journal.check()) == []
        journal.close()
