"""Moving a journal to another store, or filling it from one: the logic for every backend, over its statements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Generic

from takeback.core.leases import RESERVED, Lease
from takeback.core.record import Record
from takeback.errors import ConflictError, CorruptionError, JournalMoved, RunBusy, StoreMoved, UsageError
from takeback.ports.journal import Head
from takeback.ports.relocation import QueueRow, Stored
from takeback.storage.journal.anchor import Anchor
from takeback.storage.journal.batch import record_of
from takeback.storage.journal.stored_journal import Db, StoredJournal
from takeback.system.crash_points import crash_point, reach
from takeback.system.private_files import unusable

ADOPTING = crash_point("store-adopting")

STARTS_ANEW = (
    "start again every process that opened the workspace before the move; in another folder with this history, "
    "`takeback store copy --to ADDRESS` follows it there"
)


class StoredMoving(ABC, Generic[Db]):
    """A journal that can be moved: `takeback.ports.relocation.Moving`."""

    def __init__(self, journal: StoredJournal[Db]) -> None:
        self._journal = journal

    def shut(self, notice: str, *, at: int | None = None) -> None:
        def work(db: Db) -> None:
            refuse_shutting(at, self._journal.events.head(db).count)
            if not self._notice(db):
                refuse_at_work(self._claimed(db), self._leases(db))
            self._set_notice(db, notice)

        self._hold(work)

    def reopen(self) -> None:
        if self.notice():  # usually there is nothing to do, and the caller may only be allowed to read
            self._hold(lambda db: self._set_notice(db, ""))

    def notice(self) -> str:
        return self._journal.ask(self._notice)

    def rows(self, *, after: int = 0) -> Iterator[Stored]:
        return self._journal.stored(after, self._journal.head().count)

    def adopt(self, rows: Sequence[Stored], queue: Sequence[QueueRow] = (), fence: int = 0) -> None:
        events = self._journal.events

        def work(db: Db) -> None:
            refuse_open(self._notice(db))
            fresh, records = next_of(
                rows,
                events.head(db).count,
                lambda seq: events.get(db, seq),
                lambda stream: events.head(db, stream),
            )
            self._take_in(db, fresh, records, queue, fence)
            reach(ADOPTING)

        self._keep_anchor()
        self._hold(work)

    def queue(self, *, after: int = 0, limit: int = 1000) -> Sequence[QueueRow]:
        return self._journal.ask(lambda db: self._queue(db, after, limit))

    def fence(self) -> int:
        return self._journal.ask(self._fence)

    # The statements of each backend

    @abstractmethod
    def _hold(self, work: Callable[[Db], None]) -> None:
        """Run `work` in a transaction that locks the end of the journal, even of a shut one."""

    @abstractmethod
    def _notice(self, db: Db) -> str: ...

    @abstractmethod
    def _set_notice(self, db: Db, notice: str) -> None:
        """Shut the journal with this notice; open it again if the notice is empty."""

    @abstractmethod
    def _claimed(self, db: Db) -> int:
        """Return the number of claimed intents."""

    @abstractmethod
    def _leases(self, db: Db) -> Collection[Lease]: ...

    @abstractmethod
    def _take_in(
        self,
        db: Db,
        fresh: Sequence[Stored],
        records: Sequence[Record],
        queue: Sequence[QueueRow],
        fence: int,
    ) -> None:
        """Write the rows that come next, update the outbox, and never issue a lease with a fence up to `fence`."""

    @abstractmethod
    def _queue(self, db: Db, after: int, limit: int) -> Sequence[QueueRow]: ...

    @abstractmethod
    def _fence(self, db: Db) -> int: ...

    @abstractmethod
    def _keep_anchor(self) -> None:
        """Make sure that the anchor exists, if this backend has one."""


def moved(notice: str) -> StoreMoved:
    """Return the error for a write to a journal that is shut."""
    return StoreMoved(f"the history of this workspace {notice}; nothing was recorded", hint=STARTS_ANEW)


def refuse_shutting(at: int | None, count: int) -> None:
    if at is not None and at != count:
        raise JournalMoved(
            f"another process appended first: there are {count:,} records, not {at:,}; nothing was changed",
            hint="try again",
        )


def refuse_at_work(claimed: int, leases: Collection[Lease]) -> None:
    """Raise RunBusy if a worker or a lock holder is active: it would not know about the new store."""
    if claimed:
        raise RunBusy(
            "a worker is delivering intents; nothing was moved",
            hint="stop `takeback outbox worker`, and try again; the claims of a dead worker expire after a minute",
        )
    # Takeback's own leases are taken again in the new store.
    if live := [one.name for one in leases if one.is_live and not one.name.startswith(RESERVED)]:
        raise RunBusy(
            f"{', '.join(live[:3])} {'is' if len(live) == 1 else 'are'} locked; nothing was moved",
            hint="`takeback locks list` shows by whom; `takeback locks release` releases them",
        )


def refuse_open(notice: str) -> None:
    if not notice:
        raise UsageError(
            "only a journal that is shut can take in the records of another; nothing was recorded"
        )


def next_of(
    rows: Sequence[Stored], last: int, there: Callable[[int], Stored | None], end_of: Callable[[str], Head]
) -> tuple[list[Stored], list[Record]]:
    """Return the rows that are not there yet, each verified to come next in the journal and in its stream."""
    for row in rows:
        if row[0] <= last and there(row[0]) != tuple(row):
            raise ConflictError(f"event {row[0]} is different in the new store; nothing was recorded")
    fresh = [row for row in rows if row[0] > last]
    records = [record_of(row) for row in fresh]
    ends: dict[str, Head] = {}
    for record in records:
        last += 1
        envelope = record.envelope
        end = ends.get(record.stream) or end_of(record.stream)
        if record.seq != last or (envelope.n, envelope.prev) != (end.count + 1, end.digest):
            raise CorruptionError(
                f"event {record.seq} does not come next in the new store; nothing was recorded"
            )
        ends[record.stream] = Head(envelope.n, record.digest)
    return fresh, records


def keep_anchor(anchor: Anchor) -> None:
    """Create the anchor before rows are taken in.

    They are verified; without an anchor they would count as unanchored.
    """
    try:
        if not anchor.exists():
            anchor.start(lost=0)
    except OSError as error:
        raise unusable(anchor.path, error) from error
