"""The journal in a PostgreSQL database, shared by any number of workspaces and machines.

One row of each workspace says where its journal ends. An append is one statement: it moves that row from where the
writer last saw it, and brings the events along. If the row is elsewhere by now nothing happens, and the append is
repeated in a transaction that holds the row.

Those of one process that append at once share a commit (`line`); a single writer commits by itself.

Where a connection is lost while a statement is under way, nobody knows whether it was carried out. The next attempt
holds the row first, which waits for the lost one to end, and looks whether its events are there.
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
from takeback.ports.relocation import Stored
from takeback.storage.journal.anchor import Anchoring
from takeback.storage.journal.batch import Batch
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
from takeback.storage.journal.verify import audit
from takeback.system.clock import SystemClock
from takeback.system.crash_points import crash_point, reach

if TYPE_CHECKING:
    import psycopg

    Db = psycopg.Connection[tuple[Any, ...]]

T = TypeVar("T")

PATIENCE_S = 15.0
"""How long a server that went away is waited for."""
GROUP_MAX, STREAMS_MAX, LOOSE_MAX = 256, 512, 1000
CATCH_UP_MAX = 10_000
"""Of more events than this, that others wrote, only the last is anchored here."""
RIVALRY = 16
"""After somebody else wrote in between, so many appends hold the row before they look."""

BEFORE_BEGIN = crash_point("journal-before-begin")
INSIDE = crash_point("journal-inside")
COMMITTED = crash_point("journal-committed")
ANCHORED = crash_point("journal-anchored")


class PostgresJournal(StoredJournal["Db"]):
    """The journal of the workspace of this name, in the database at `dsn`; `anchor` is a file on this machine."""

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
        super().__init__(statements.PostgresEventTable(lambda: self._id))
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
            raise UsageError("the name of a stream or a key cannot have a NUL in it. Nothing was recorded")
        waiting = PendingAppend(Batch(tuple(events), stream, expect, key), durable=durable, fences=fences)
        reach(BEFORE_BEGIN)
        line = self._line
        # Whoever uses the connection must not wait for who waits for it.
        self._session.refuse_nesting(leads=line.is_led_here)
        return line.append(waiting, lambda: self._session.held(lambda: self._lead(line)))

    def _lead(self, line: Line) -> None:
        """Commit what stands in line, for everybody who waits there."""
        group = line.take(GROUP_MAX)
        if len(self._loose) >= LOOSE_MAX:
            group[0].durable = True
        try:
            self._carry(group)
        except Exception as error:  # noqa: BLE001  each of them raises it in its own thread
            for waiting in group:
                if not waiting.is_done:
                    waiting.end(error)
        except BaseException:
            # An interrupt is for this thread alone. What was under way stays in doubt for the next.
            self._session.let_go()
            line.give_back(group)
            raise

    def _carry(self, group: Sequence[PendingAppend]) -> None:
        """Bring a group to the server, whatever happens to the connection, once."""
        patience = self._session.patience()
        unseated = self.seats is not None and not self.seats.fence  # nobody has looked yet who sits there
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
                    self._session.let_go()
                    if not patience.again():
                        raise explain(error, self.address.name, self._world(group)) from error
                elif is_held or not is_known_key(error):
                    raise explain(error, self.address.name, self._world(group)) from error
            is_held = True

    def _try(self, db: Db, group: Sequence[PendingAppend]) -> bool:
        """Write behind the end that was last seen, in one statement; False where that is no longer the end."""
        view = self._view
        if view is None or not self._anchoring.is_trusted or not view.knows(streams_of(group)):
            return False
        sealed = seal(group, view, {}, self._clock.now_us())
        if sealed.has_errors:
            return False  # what is known may be old: errors are given only by whoever holds the row
        reach(INSIDE)
        with self._doubting(sealed):
            written = statements.write(
                db, self._id, sealed.seen, sealed.rows, sealed.parts, durable=sealed.durable, seat=self._seat
            )
        if not written:
            self._rivalry = RIVALRY
            return False
        self._finish(sealed)
        return True

    def ask(self, work: Callable[[Db], T]) -> T:
        return self._session.ask(work)

    def change(self, work: Callable[[Db], T]) -> T:
        # Without the end of the journal, which others may be holding; and durable, as every statement is.
        return self._session.ask(work)

    def decide(
        self,
        work: Callable[[Db], Sequence[Event]],
        *,
        durable: bool = True,  # noqa: ARG002  a server that forgot a claim would give it to another
        seated: bool = False,
    ) -> None:
        said: list[PendingAppend] = []

        def group(db: Db) -> Sequence[PendingAppend]:
            if not said or not said[-1].is_done:
                words = work(db)
                batches = [Batch(tuple(words), WORKSPACE, None, "")] if words else []
                said[:] = [PendingAppend(batch, durable=True, anywhere=not seated) for batch in batches]
                return said
            return []  # what was said before the connection was lost is there

        patience = self._session.patience()
        self._session.held(lambda: self._decide(group, said, patience))
        for waiting in said:
            waiting.answer()

    def _decide(
        self, group: Callable[[Db], Sequence[PendingAppend]], said: Sequence[PendingAppend], patience: Backoff
    ) -> None:
        while True:
            try:
                return self._hold(self._session.connection(), group)
            except self._session.error as error:
                lost = is_lost(error)
                if lost:
                    self._session.let_go()
                if not lost or not patience.again():
                    raise explain(error, self.address.name, self._world(said)) from error
            except BaseException:
                self._session.let_go()
                raise

    def _hold(self, db: Db, made: Callable[[Db], Sequence[PendingAppend]]) -> None:
        """Write what is `made` in a transaction that holds the row, so that nobody else moves it meanwhile."""
        try:
            head, sitting = statements.lock(db, self._id)
            self._settle(db)
            group = made(db)
            if self.seats:
                group = self.seats.admit(db, sitting, group)
            self._anchoring.trust(head, lambda after: statements.digests(db, self._id, after=after))
            keys, streams = keys_of(group), streams_of(group)
            earlier = statements.find_all(db, self._id, keys) if keys else {}
            ends = self._view.ends if self._view and self._view.head == head else {}
            if not streams <= ends.keys():
                ends = {**ends, **statements.ends(db, self._id, streams)}
            fences = fences_of(group)
            held = self.lease_table.held(db, fences) if fences else ()
            sealed = seal(group, JournalHeads(head, ends), earlier, self._clock.now_us(), held)
            reach(INSIDE)
            if sealed.rows:
                seat = self._seat if any(not waiting.anywhere for waiting in group) else 0
                statements.write(
                    db, self._id, head, sealed.rows, sealed.parts, durable=sealed.durable, seat=seat
                )
                self.outbox_table.project(db, sealed.records)
            elif sealed.durable:
                # Whoever committed what is answered now may not have waited until it was durable.
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
        """Until the server has answered, nobody knows whether these rows are there."""
        self._doubt = sealed
        try:
            yield
        except self._session.error as error:
            if not is_lost(error):
                self._doubt = None
            raise
        self._doubt = None

    def _settle(self, db: Db) -> None:
        """Find out what became of a write without an answer. Nothing more can come of it: its row is held by us."""
        if self._doubt and self._doubt.rows:
            first = self._doubt.rows[0]
            found = self.events.get(db, first[0])
            if found and found[4] == first[4]:
                self._finish(self._doubt)
            elif self.seats:
                self.seats.settled(is_there=False)
        self._doubt = None

    def _finish(self, sealed: Sealed) -> None:
        """From here the events exist."""
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

    def check(self) -> Iterator[Finding]:
        # The anchor first: it is then never ahead of what is read after it, whoever appends meanwhile.
        anchored, findings = self._anchoring.read(is_needed=self.head().count > 0)
        yield from findings
        noted, last = self.head().count, self._session.ask(lambda db: statements.last(db, self._id))
        if last < noted:
            yield Finding(
                "database", f"{noted} events are noted, and the last that is there is event {last}", last
            )
        yield from audit(self._rows(), anchored)

    def wait(self, after: int, timeout_s: float) -> bool:
        """Whether there is an event after this one, as soon as there is; False when the time is up."""
        with self._waiting:
            return self._bell.wait(after, timeout_s)

    def _rows(self) -> Iterator[Stored]:
        """Every row, also where some are missing."""
        at = statements.LOWEST
        while rows := self.page(at, HIGHEST):
            yield from rows
            at = rows[-1][0]

    # Coming and going

    def _renewed(self, db: Db) -> None:
        """A new connection: what was known may be old, and what was not durable may be gone."""
        self._view = None
        if self._loose:
            statements.lock(db, self._id)
            undurable.restore(db, self._id, self._loose)
            statements.commit(db)
            self._loose.clear()

    def _forked(self) -> None:
        """In a child nobody else is there: those who stood in line, and whoever led, are threads of the parent."""
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
                # The server is gone. What it has not made durable stays out of the anchor, as after a crash.
                self.anchor.sync()
            finally:
                self._session.close()
                self._bell.close()
                self.anchor.close()


def _needs_more(waiting: PendingAppend) -> bool:
    """Whether leases have to be looked at, or the outbox has to follow, in the same transaction."""
    return bool(waiting.fences) or any(outbox_table.concerns(event) for event in waiting.batch.events)
