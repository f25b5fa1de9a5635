"""Compacting a journal in place: the logic for every backend, over its statements.

Small records are replaced in short transactions, so that writers hardly wait. The big ones come last, together with
the event that ends the compaction: another record may be stored against a big one (packed.py). In that transaction
no other process can append, and a process that has prepared an append finds that the journal has moved, and begins
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Generic

from takeback.core import compaction
from takeback.core.compaction import BLOCK, Ranges
from takeback.core.events import CompactionBegan, CompactionEnded, Event
from takeback.core.ids import WORKSPACE
from takeback.core.record import Record
from takeback.errors import CorruptionError, FormatTooNew, JournalMoved, UsageError
from takeback.ports.compaction import CompactionForecast
from takeback.ports.journal import Finding
from takeback.ports.progress import Progress, silent
from takeback.ports.relocation import Stored
from takeback.storage.journal import reduced
from takeback.storage.journal.batch import PACK_BYTES, PACKED, missing, record_of
from takeback.storage.journal.stored_journal import Db, StoredJournal, whole
from takeback.storage.journal.verify import StoredOrTorn, audit, events
from takeback.system.crash_points import crash_point, reach

KEY = "takeback:compaction:"
"""The key under which the first, second, third compaction is recorded: so they are found without an index."""
BLOCKS_AT_ONCE = 4

BEGAN = crash_point("compaction-began")
REPLACED = crash_point("compaction-replaced")
ENDING = crash_point("compaction-ending")
ENDED = crash_point("compaction-ended")


class StoredCompaction(Generic[Db]):
    """A journal that can be compacted: `takeback.ports.compaction.Compaction`."""

    def __init__(self, journal: StoredJournal[Db]) -> None:
        self._journal = journal

    def began(self) -> list[Record]:
        found: list[Record] = []
        while records := self._journal.find(f"{KEY}{len(found) + 1}"):
            found.append(records[0])
        return found

    def foresee(self, ranges: Ranges, planned_us: int, progress: Progress = silent) -> CompactionForecast:
        before = after = 0
        digests = []
        for seqs in progress("Looking at old records", blocks(ranges), _blocks_in(ranges)):
            rows = self._rows(seqs)
            left = [self._reduced(row, planned_us) for row in rows]
            before += sum(len(row[5]) for row in rows)
            after += sum(len(row[5]) for row in left)
            digests.append(reduced.digest_of(left))
        return CompactionForecast(compaction.count(ranges), before, after, tuple(digests))

    def begin(self, event: CompactionBegan) -> Record:
        key = f"{KEY}{len(self.began()) + 1}"
        try:
            (record,) = self._journal.append([event], stream=WORKSPACE, key=key)
        except UsageError as error:
            raise JournalMoved(
                "another process has just begun to compact the journal; nothing was changed", hint="try again"
            ) from error
        reach(BEGAN)
        return record

    def carry_out(self, began: Record, progress: Progress = silent) -> None:
        event = began.event
        assert isinstance(event, CompactionBegan)
        big: list[int] = []
        every = blocks(event.ranges, BLOCK * BLOCKS_AT_ONCE)
        for seqs in progress("Compacting old records", every, _blocks_in(event.ranges) // BLOCKS_AT_ONCE):
            fresh = []
            for row in self._rows(seqs):
                if self._is_big(row):
                    big.append(row[0])
                elif not reduced.is_reduced(row):
                    fresh.append(self._reduced(row, event.planned_us))
            if fresh:
                self._replace(fresh)

        def end(db: Db) -> list[Event]:
            if big:
                self._replace_big(db, big, event.planned_us)
            reach(ENDING)
            return [CompactionEnded(began.seq)]

        self._journal.decide(end, seated=True)
        reach(ENDED)

    def release(self) -> str:
        return ""

    def check(self, began: Record) -> Iterator[Finding]:
        """Yield where what is left of compacted records is not what their compaction recorded."""
        event = began.event
        assert isinstance(event, CompactionBegan)
        parts = list(blocks(event.ranges))
        if len(parts) != len(event.digests):
            yield Finding(f"event {began.seq}", "names other records than it has digests for", began.seq)
            return
        for seqs, name in zip(parts, event.digests, strict=True):
            try:
                left = [self._reduced(row, event.planned_us) for row in self._rows(seqs)]
            except (CorruptionError, FormatTooNew):
                continue  # the audit names the record
            if reduced.digest_of(left) != name:
                what = f"what is left of them is not what the compaction with event {began.seq} left"
                yield Finding(events(seqs[0], seqs[-1]), what, seqs[0])

    # Rows

    def _rows(self, seqs: Sequence[int]) -> list[Stored]:
        """Return these rows as they are stored. Raise CorruptionError if one is missing."""
        rows = self._journal.ask(lambda db: self._journal.events.rows(db, seqs))
        for seq, row in zip(seqs, rows, strict=False):
            if row[0] != seq:
                raise missing(seq)
        if len(rows) < len(seqs):
            raise missing(seqs[len(rows)])
        return rows

    def _reduced(self, row: Stored, planned_us: int, db: Db | None = None) -> Stored:
        if reduced.is_reduced(row):
            record_of(row)  # raises if it is damaged
            return row
        get = self._journal.events.get
        ask = self._journal.ask
        full = whole(row, lambda seq: get(db, seq) if db is not None else ask(lambda db: get(db, seq)))
        return reduced.reduced(full, record_of(full), planned_us)

    def _replace(self, rows: Sequence[Stored]) -> None:
        self._journal.change(lambda db: self._journal.events.replace(db, rows))
        reach(REPLACED)

    def _is_big(self, row: Stored) -> bool:
        """Return whether another row may be stored against this one."""
        if len(row[5]) < PACK_BYTES and row[5][:1] != PACKED:
            return False
        from takeback.storage.journal import packed

        return packed.can_be_base(row[5])

    def _replace_big(self, db: Db, seqs: Sequence[int], planned_us: int) -> None:
        """Replace big rows; what is stored against them, and stays, is stored by itself."""
        from takeback.storage.journal import packed

        table, going = self._journal.events, set(seqs)
        alone = []
        for seq, head in table.packed_heads(db, seqs[0]):
            if seq not in going and packed.base_of(head) in going and (row := table.get(db, seq)):
                alone.append(packed.alone(row))
        left = [self._reduced(row, planned_us, db) for row in table.rows(db, seqs)]
        table.replace(db, alone)
        table.replace(db, left)


def blocks(ranges: Ranges, size: int = BLOCK) -> Iterator[list[int]]:
    """Yield the numbers in these ranges, so many at a time."""
    some: list[int] = []
    for first, last in ranges:
        for seq in range(first, last + 1):
            some.append(seq)
            if len(some) == size:
                yield some
                some = []
    if some:
        yield some


def _blocks_in(ranges: Ranges) -> int:
    return -(-compaction.count(ranges) // BLOCK)


def audited(
    journal: StoredJournal[Db], rows: Iterable[StoredOrTorn], anchored: Mapping[int, str], since: int
) -> Iterator[Finding]:
    """Yield what is wrong with the rows after `since`, and with what compactions recorded there have left."""
    compacting = StoredCompaction(journal)
    try:
        began = compacting.began()
    except (CorruptionError, FormatTooNew):
        began = []  # the audit names the record
    covered = [record.event.ranges for record in began if isinstance(record.event, CompactionBegan)]

    def is_recorded(seq: int) -> bool:
        return any(compaction.is_in(ranges, seq) for ranges in covered)

    yield from audit(rows, anchored, journal.checked(since), is_recorded)
    for record in began:
        if record.seq > since:
            yield from compacting.check(record)
