"""The port for compacting a journal in place. The contract is in `takeback.testing`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from takeback.core.compaction import Ranges
from takeback.core.events import CompactionBegan
from takeback.core.record import Record
from takeback.ports.progress import Progress, silent


class CompactionForecast(msgspec.Struct, frozen=True):
    """What compacting some records would leave."""

    records: int
    bytes_before: int
    bytes_after: int
    digests: tuple[str, ...]
    """As in `CompactionBegan`."""

    @property
    def freed(self) -> int:
        return max(0, self.bytes_before - self.bytes_after)


class Compaction(Protocol):
    """A journal whose old records can lose their details. Which ones, others decide (`core/compaction.py`)."""

    def began(self) -> Sequence[Record]:
        """Return the records with which the compactions of this journal began, in order."""

    def foresee(self, ranges: Ranges, planned_us: int, progress: Progress = silent) -> CompactionForecast:
        """Return what compacting these records would leave. Changes nothing."""

    def begin(self, event: CompactionBegan) -> Record:
        """Record that a compaction begins, durably. Nothing is compacted yet.

        Raise JournalMoved if another process has begun one since the caller looked.
        """

    def carry_out(self, began: Record, progress: Progress = silent) -> None:
        """Compact the records that this record names, and record the end. May be called again after any error.

        What was appended before, and what others append meanwhile, stays readable at any moment. Durable when this
        returns.
        """

    def release(self) -> str:
        """Return the room that is free now to the disk; or say why that could not be done."""
