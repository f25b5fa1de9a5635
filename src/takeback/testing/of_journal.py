"""The common base of the contracts of a journal's parts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from takeback.ports.journal import Journal


class OfJournal:
    """The base of a contract. Subclass the contract, with a name that pytest collects."""

    def open(self, where: Path) -> Journal:
        """Return the journal that is kept in this folder; the same one for the same folder."""
        raise NotImplementedError

    @pytest.fixture
    def journal(self, tmp_path: Path) -> Iterator[Journal]:
        """Yield a journal, and check it afterwards."""
        journal = self.open(tmp_path)
        yield journal
        assert list(journal.check()) == []
        journal.close()
