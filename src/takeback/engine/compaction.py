"""Compacting the history: deciding which old records lose their details, recording that, and doing it.

    look at old records → record which ones → replace them → record that it is done

What is recorded is done, by this process or by the next one that writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from takeback.core import compaction
from takeback.core.change import Target
from takeback.core.compaction import CompactionSurvey
from takeback.core.events import ActionTold, CompactionBegan, RollbackBegan, RollbackEnded
from takeback.core.record import Record
from takeback.engine.ledger import Ledger
from takeback.ports.compaction import CompactionForecast
from takeback.ports.progress import Progress, silent

WORTH_SHARE = 20
"""A compaction costs a new index, so it waits until one record in so many is old enough, and was not before."""
TRIM_EACH = 8192

_OF_OLD = (RollbackBegan, RollbackEnded, ActionTold, CompactionBegan)
"""Events that may speak of what was over when they came."""


class CompactionPlan(msgspec.Struct, frozen=True):
    """The records that can lose their details, and what that leaves."""

    through: int
    ranges: tuple[tuple[int, int], ...]
    first_us: int
    last_us: int
    planned_us: int
    seen: int
    """The last record that there was then."""
    foreseen: CompactionForecast


class Compactor:
    """The compactions of one workspace. Planning needs no lock; the caller of `carry_out` and `finish` holds it."""

    def __init__(
        self, ledger: Ledger, is_setting: Callable[[Target], bool], progress: Progress = silent
    ) -> None:
        """`is_setting` knows files of settings that a human may have to accept."""
        self._ledger = ledger
        self._journal = ledger.journal
        self._is_setting = is_setting
        self._progress = progress

    def last_before(self, at_us: int) -> int:
        """Return the number of the last record that is older. Found by halving, so it relies on the clock."""
        low, high = 0, self._ledger.refresh().seq
        while low < high:
            middle = (low + high + 1) // 2
            record = self._journal.get(middle)
            low, high = (middle, high) if record and record.at_us < at_us else (low, middle - 1)
        return low

    def plan(self, before_us: int, now_us: int, most: int | None = None) -> CompactionPlan | None:
        """Return which records from before a time can lose their details; None if there are too few.

        Of the records behind the first `most`, none may.
        """
        through = self.last_before(before_us)
        through = through if most is None else min(through, most)
        seen = self._ledger.refresh().seq
        if (through - self.compacted_through()) * WORTH_SHARE < seen:
            return None
        survey, first_us, last_us = self._survey(through, before_us)
        seqs = (record.seq for record in self._old(survey.through) if survey.compacts(record))
        ranges = compaction.ranges_of(seqs)
        foreseen = self._journal.compaction.foresee(ranges, now_us, self._progress)
        if not foreseen.freed:
            return None
        return CompactionPlan(survey.through, ranges, first_us, last_us, now_us, seen, foreseen)

    def compacted_through(self) -> int:
        """Return the last record that was old enough for the last compaction; 0 if there was none."""
        began = self._ledger.refresh().compactions
        record = self._journal.get(began[-1]) if began else None
        return record.event.through if record and isinstance(record.event, CompactionBegan) else 0

    def still_holds(self, plan: CompactionPlan) -> bool:
        """Return whether nothing was recorded since the plan that could speak of finished work."""
        later = self._journal.read(after=plan.seen)
        return not any(isinstance(record.event, _OF_OLD) for record in later)

    def _survey(self, through: int, before_us: int) -> tuple[CompactionSurvey, int, int]:
        while True:
            history = self._ledger.refresh()
            later = self._journal.read(after=through)
            survey = CompactionSurvey(history, through, later, self._is_setting)
            first_us = last_us = 0
            for record in self._progress("Looking at the history", self._old(through), through):
                if record.at_us >= before_us:
                    break  # a clock was wrong: what comes next is not certainly old
                first_us, last_us = first_us or record.at_us, record.at_us
                survey.look_at(record)
                if record.seq % TRIM_EACH == 0:
                    history.trim(-1)
            else:
                survey.settle()
                return survey, first_us, last_us
            through = record.seq - 1

    def _old(self, through: int) -> Iterable[Record]:
        for record in self._journal.read():
            if record.seq > through:
                break
            yield record

    def carry_out(self, plan: CompactionPlan, actor: str) -> None:
        """Record the plan, and do it."""
        self._do(self.begin(plan, actor))

    def begin(self, plan: CompactionPlan, actor: str) -> Record:
        """Record the plan."""
        event = CompactionBegan(plan.through, plan.ranges, plan.foreseen.digests, plan.planned_us, actor)
        return self._journal.compaction.begin(event)

    def finish(self) -> int:
        """Do what an interrupted compaction had left. Return how many records it was about; 0 if there was none."""
        if not (at := self._ledger.refresh().compacting):
            return 0
        began = self._journal.get(at)
        assert began is not None and isinstance(began.event, CompactionBegan)
        self._do(began)
        return compaction.count(began.event.ranges)

    def _do(self, began: Record) -> None:
        self._journal.compaction.carry_out(began, self._progress)
