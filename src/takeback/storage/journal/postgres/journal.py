"""The journal in a PostgreSQL database, shared by any number of workspaces and machines.

Each workspace has one row that says where its journal ends. An append is one statement: it moves that row from
where the writer last saw it, and inserts the events with it. If the row has moved meanwhile, the statement changes
nothing, and the append is repeated in a transaction that locks the row.

Threads of one process that append at the same time share a commit (`Line`); a single writer commits alone.

If a connection is lost while a statement runs, it is unknown whether the statement took effect. The next attempt
locks the row first, which waits for the lost transaction to end, and then checks whether the events are there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from takeback.core.events import Event
from takeback.core.ids import WORKSPACE
from takeback.core.record import Record
from takeback.core.seats import Place
from takeback.errors import BackendError, UsageError
from takeback.ports.clock import Clock
from takeback.ports.journal import Finding, Head
from takeback.ports.progress import Progress, silent
from takeback.storage.journal.anchor import Anchoring
from takeback.storage.journal.batch import Batch
from takeback.storage.journal.compaction import StoredCompaction, audited
from takeback.storage.journal.group_commit import (
    JournalHeads,
    Line,
    PendingAppend,
    Sealed,
    fences_of,
    keys_of,
    seal,
    streams_of,
)
from takeback.storage.journal.leases import StoredLeases
from takeback.storage.journal.outbox import StoredOutbox
from takeback.storage.journal.postgres import outbox_table, statements, undurable
from takeback.storage.journal.postgres.connection import BUSY_S, Address
from takeback.storage.journal.postgres.errors import (
    IN_DOUBT,
    NOTHING_RECORDED,
    explain,
    is_known_key,
    is_lost,
)
from takeback.storage.journal.postgres.lease_table import PostgresLeaseTable
from takeback.storage.journal.postgres.notify import Bell
from takeback.storage.journal.postgres.outbox_table import PostgresOutboxTable
from takeback.storage.journal.postgres.relocation import PostgresMoving
from takeback.storage.journal.postgres.seats import SEAT_S, PostgresSeats
from takeback.storage.journal.postgres.session import Backoff, PostgresSession
from takeback.storage.journal.stored_journal import HIGHEST, StoredJournal
from takeback.storage.journal.verify import VERIFYING, StoredOrTorn, whole_or_torn
from takeback.system.clock import SystemClock
from takeback.system.crash_points import crash_point, reach

if TYPE_CHECKING:
    import psycopg

    Db = psycopg.Connection[tuple[Any, ...]]

T = TypeVar("T")

PATIENCE_S = 15.0
"""How long to wait for a server that went away."""
GROUP_MAX, STREAMS_MAX, LOOSE_MAX = 256, 512, 1000
CATCH_UP_MAX = 10_000
"""If other machines wrote more events than this, only the last one is anchored here."""
RIVALRY = 16
"""After another process wrote in between, this many appends lock the row before they look."""

BEFORE_BEGIN = crash_point("journal-before-begin")
INSIDE = crash_point("journal-inside")
COMMITTED = crash_point("journal-committed")
ANCHORED = crash_point("journal-anchored")


class PostgresJournal(StoredJournal["Db"]):
    """The journal of the workspace `workspace` in the database at `dsn`; `anchor` is a file on this machine."""

    def __init__(
        self,
        dsn: str,
        workspace: str,
        anchor: Path,
        *,
        clock: Clock | None = None,
        busy_s: float = BUSY_S,
        patience_s: float = PATIENCE_S,
        place: Place | None = None,
        seat_s: float = SEAT_S,
        may_sit: bool = True,
    ) -> None:
        """Without a `place` it appends wherever the workspace sits."""
        self._table = statements.PostgresEventTable(lambda: self._id)
        super().__init__(self._table)
        self.address = Address(dsn, busy_s=busy_s)
        self._anchoring = Anchoring(anchor, "the database", catch_up_max=CATCH_UP_MAX)
        self.anchor = self._anchoring.file
        self._clock = clock or SystemClock()
        self._line = Line()
        self._view: JournalHeads | None = None
        self._doubt: Sealed | None = None
        self._loose: list[Sealed] = []
        self._rivalry = 0
        self._bell = Bell(self.address, workspace)
        self._waiting = threading.Lock()
        self._session = PostgresSession(self.address, workspace, patience_s, self._renewed, self._forked)
        self.lease_table = PostgresLeaseTable(self._session)
        self.outbox_table = PostgresOutboxTable(self._session)
        self.outbox = StoredOutbox(self, self.outbox_table)
        self.leases = StoredLeases(self, self.lease_table, self._clock.now_us)
        at = self._session, self.decide, self.lease_table, self._clock.now_us
        self.seats = PostgresSeats(*at, place, ttl_s=seat_s, may_sit=may_sit) if place else None
        self.moving = PostgresMoving(self, self._session)
        self.compaction = StoredCompaction(self)
        self._session.open()

    # Appending

    def append(
        self,
        events: Sequence[Event],
        *,
        stream: str,
        expect: int | None = None,
        key: str = "",
        durable: bool = True,
        fences: Collection[int] = (),
    ) -> tuple[Record, ...]:
        if "\0" in stream + key:
            raise UsageError("the name of a stream or a key cannot contain a NUL. Nothing was recorded")
        waiting = PendingAppend(Batch(tuple(events), stream, expect, key), durable=durable, fences=fences)
        reach(BEFORE_BEGIN)
        line = self._line
        # A thread that uses the connection must not wait for a thread that waits for the connection.
        self._session.refuse_nesting(leads=line.is_led_here)
        return line.append(waiting, lambda: self._session.held(lambda: self._lead(line)))

    def _lead(self, line: Line) -> None:
        """Commit the queued appends, for all threads that wait for them."""
        group = line.take(GROUP_MAX)
        if len(self._loose) >= LOOSE_MAX:
            group[0].durable = True
        try:
            self._carry(group)
        except Exception as error:  # noqa: BLE001  each waiting thread raises it
            for waiting in group:
                if not waiting.is_done:
                    waiting.end(error)
        except BaseException:
            # An interrupt is for this thread alone. What was under way stays in doubt for the next attempt.
            self._session.disconnect()
            line.give_back(group)
            raise

    def _carry(self, group: Sequence[PendingAppend]) -> None:
        """Write a group to the server exactly once, even if the connection is lost."""
        patience = self._session.patience()
        unseated = self.seats is not None and not self.seats.fence  # the holder is still unknown
        is_held = self._doubt is not None or self._rivalry > 0 or unseated or any(map(_needs_more, group))
        self._rivalry = max(0, self._rivalry - 1)
        while True:
            try:
                db = self._session.connection()
                if is_held:
                    self._hold(db, lambda _: [waiting for waiting in group if not waiting.is_done])
                    return
                if self._try(db, group):
                    return
            except self._session.error as error:
                if is_lost(error):
                    self._session.disconnect()
                    if not patience.again():
                        raise explain(error, self.address.name, self._world(group)) from error
                elif is_held or not is_known_key(error):
                    raise explain(error, self.address.name, self._world(group)) from error
            is_held = True

    def _try(self, db: Db, group: Sequence[PendingAppend]) -> bool:
        """Write behind the end last seen, in one statement. Return False if that is no longer the end."""
        view = self._view
        if view is None or not self._anchoring.is_trusted or not view.knows(streams_of(group)):
            return False
        sealed = seal(group, view, {}, self._clock.now_us())
        if sealed.has_errors:
            return False  # the view may be outdated: only a transaction that locks the row reports errors
        reach(INSIDE)
        with self._doubting(sealed):
            rows = self.packed(db, sealed.rows, sealed.records)
            written = statements.write(
                db, self._id, sealed.seen, rows, sealed.parts, durable=sealed.durable, seat=self._seat
            )
        if not written:
            self._rivalry = RIVALRY
            return False
        self._finish(sealed)
        return True

    def ask(self, work: Callable[[Db], T]) -> T:
        return self._session.ask(work)

    def change(self, work: Callable[[Db], T]) -> T:
        # Does not lock the end of the journal, which others may hold; durable, as every statement is.
        return self._session.ask(work)

    def decide(
        self,
        work: Callable[[Db], Sequence[Event]],
        *,
        durable: bool = True,  # noqa: ARG002  a server that forgot a claim would hand it out again
        seated: bool = False,
    ) -> None:
        pending: list[PendingAppend] = []

        def group(db: Db) -> Sequence[PendingAppend]:
            if not pending or not pending[-1].is_done:
                events = work(db)
                batches = [Batch(tuple(events), WORKSPACE, None, "")] if events else []
                pending[:] = [PendingAppend(batch, durable=True, anywhere=not seated) for batch in batches]
                return pending
            return []  # what was written before the connection was lost is there

        patience = self._session.patience()
        self._session.held(lambda: self._decide(group, pending, patience))
        for waiting in pending:
            waiting.answer()

    def _decide(
        self,
        group: Callable[[Db], Sequence[PendingAppend]],
        pending: Sequence[PendingAppend],
        patience: Backoff,
    ) -> None:
        while True:
            try:
                return self._hold(self._session.connection(), group)
            except self._session.error as error:
                lost = is_lost(error)
                if lost:
                    self._session.disconnect()
                if not lost or not patience.again():
                    raise explain(error, self.address.name, self._world(pending)) from error
            except BaseException:
                self._session.disconnect()
                raise

    def _hold(self, db: Db, made: Callable[[Db], Sequence[PendingAppend]]) -> None:
        """Write what `made` returns in a transaction that locks the row, so that no other process moves it."""
        try:
            head, sitting = statements.lock(db, self._id)
            self._settle(db)
            group = made(db)
            if self.seats:
                group = self.seats.admit(db, sitting, group)
            self._anchoring.trust(head, lambda after: statements.digests(db, self._id, after=after))
            keys, streams = keys_of(group), streams_of(group)
            earlier = self._table.find_all(db, keys) if keys else {}
            ends = self._view.ends if self._view and self._view.head == head else {}
            if not streams <= ends.keys():
                ends = {**ends, **statements.ends(db, self._id, streams)}
            fences = fences_of(group)
            held = self.lease_table.held(db, fences) if fences else ()
            sealed = seal(group, JournalHeads(head, ends), earlier, self._clock.now_us(), held)
            reach(INSIDE)
            if sealed.rows:
                seat = self._seat if any(not waiting.anywhere for waiting in group) else 0
                rows = self.packed(db, sealed.rows, sealed.records)
                statements.write(db, self._id, head, rows, sealed.parts, durable=sealed.durable, seat=seat)
                self.outbox_table.project(db, sealed.records)
            elif sealed.durable:
                # The process that committed these records may not have waited until they were durable.
                statements.touch(db, self._id)
            with self._doubting(sealed):
                statements.commit(db)
        except BaseException:
            if self.seats and not self._doubt:
                self.seats.settled(is_there=False)
            self._session.roll_back(db)
            raise
        self._finish(sealed)

    @contextmanager
    def _doubting(self, sealed: Sealed) -> Iterator[None]:
        """Mark these rows as in doubt until the server has answered."""
        self._doubt = sealed
        try:
            yield
        except self._session.error as error:
            if not is_lost(error):
                self._doubt = None
            raise
        self._doubt = None

    def _settle(self, db: Db) -> None:
        """Find out what became of a write without an answer. It can no longer take effect: we hold its row lock."""
        if self._doubt and self._doubt.rows:
            first = self._doubt.rows[0]
            found = self.events.row(db, first[0])
            if found and found[4] == first[4]:
                self._finish(self._doubt)
            elif self.seats:
                self.seats.settled(is_there=False)
        self._doubt = None

    def _finish(self, sealed: Sealed) -> None:
        """Report the events as written: they exist from here on."""
        reach(COMMITTED)
        if self.seats:
            self.seats.settled(is_there=True)
        ends = sealed.view.ends
        self._view = sealed.view if len(ends) <= STREAMS_MAX else JournalHeads(sealed.view.head, {})
        if sealed.durable:
            self._loose.clear()
        elif sealed.rows:
            self._loose.append(sealed)
        self._anchoring.add([(row[0], row[4]) for row in sealed.rows], durable=sealed.durable)
        reach(ANCHORED)
        sealed.tell()

    def _world(self, group: Sequence[PendingAppend]) -> str:
        doubtful = {id(waiting) for waiting, _ in self._doubt.answers} if self._doubt else set()
        return IN_DOUBT if any(id(waiting) in doubtful for waiting in group) else NOTHING_RECORDED

    # Reading

    def check(self, *, since: int = 0, progress: Progress = silent) -> Iterator[Finding]:
        # Read the anchor first: then it is never ahead of the rows read after it, even if others append meanwhile.
        anchored, findings = self._anchoring.read(is_needed=self.head().count > 0, since=since)
        yield from findings
        noted, last = self.head().count, self._session.ask(lambda db: statements.last(db, self._id))
        if last < noted:
            yield Finding(
                "database",
                f"the workspace's row counts {noted} events, but the last one stored is event {last}",
                last,
            )
        rows = progress(VERIFYING, self._rows(since), noted - since)
        yield from audited(self, rows, anchored, since)

    def wait(self, after: int, timeout_s: float) -> bool:
        """Wait for an event after this one. Return True as soon as there is one, False on timeout."""
        with self._waiting:
            return self._bell.wait(after, timeout_s)

    def _rows(self, since: int) -> Iterator[StoredOrTorn]:
        """Every row after this one, also where some are missing."""
        at, unpacker = since or statements.LOWEST, self.unpacker()
        while rows := self.page(at, HIGHEST):
            for row in rows:
                yield whole_or_torn(row, unpacker)
            at = rows[-1][0]

    # Coming and going

    def _renewed(self, db: Db) -> None:
        """Prepare a new connection: the view may be outdated, and events that were not durable may be gone."""
        self._view = None
        if self._loose:
            statements.lock(db, self._id)
            undurable.restore(db, self._id, self._loose)
            statements.commit(db)
            self._loose.clear()

    def _forked(self) -> None:
        """Reset the queue in a forked child: the threads that waited in it, or led, exist only in the parent."""
        self._line = Line()

    @property
    def _id(self) -> int:
        return self._session.id

    @property
    def _seat(self) -> int:
        return self.seats.fence if self.seats else 0

    def durable_head(self) -> Head:
        return self._anchoring.last()

    def sync(self) -> None:
        if self._loose:
            self._session.ask(lambda db: statements.touch(db, self._id))
            self._loose.clear()
            self._anchoring.add([], durable=True)
        self.anchor.sync()

    def close(self) -> None:
        with self._session.lock:
            if self._session.is_closed:
                return
            try:
                self.sync()
            except BackendError:
                # The server is gone. Events it has not made durable stay out of the anchor, as after a crash.
                self.anchor.sync()
            finally:
                self._session.close()
                self._bell.close()
                self.anchor.close()


def _needs_more(waiting: PendingAppend) -> bool:
    """Return True if the transaction must also check leases or update the outbox."""
    return bool(waiting.fences) or any(outbox_table.concerns(event) for event in waiting.batch.events)
