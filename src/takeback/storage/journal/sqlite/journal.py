"""The journal in one SQLite file, with its anchor beside it.

One row holds one record. SQLite's write lock gives the order; a sync of its WAL, after the lock, gives durability;
and the anchor gets its lines afterwards. Threads that append at once share a transaction and its sync (`line`); a
single writer commits by itself. Reading holds no lock and no long transaction: a journal only grows, so what stood
at the time of the call is all up to the last record then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import apsw

from takeback.core import ids
from takeback.core.events import Event
from takeback.core.record import Record
from takeback.errors import CorruptionError
from takeback.ports.clock import Clock
from takeback.ports.journal import Finding, Head
from takeback.ports.relocation import Stored
from takeback.storage.journal.anchor import Anchoring
from takeback.storage.journal.batch import NOTHING, Batch, unreadable
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
from takeback.storage.journal.sqlite import statements
from takeback.storage.journal.sqlite.errors import explain
from takeback.storage.journal.sqlite.lease_table import SqliteLeaseTable
from takeback.storage.journal.sqlite.outbox_table import SqliteOutboxTable
from takeback.storage.journal.sqlite.relocation import SqliteMoving, refuse_shut
from takeback.storage.journal.sqlite.session import SqliteSession
from takeback.storage.journal.stored_journal import HIGHEST, StoredJournal
from takeback.storage.journal.verify import StoredOrTorn, audit
from takeback.system.clock import SystemClock
from takeback.system.crash_points import crash_point, reach

T = TypeVar("T")

BUSY_S = 10.0
GROUP_MAX = 256
STREAMS_MAX = 512

BEFORE_BEGIN = crash_point("journal-before-begin")
INSIDE = crash_point("journal-inside")
COMMITTED = crash_point("journal-committed")
ANCHORED = crash_point("journal-anchored")


class SqliteJournal(StoredJournal[apsw.Connection]):
    """A journal in the file `path`; its anchor is the file of that name with the ending `.anchor`.

    Its folder must be there; `private.private_folder` makes it as it should be.
    """

    seats = None  # it is with its folder

    def __init__(self, path: Path, *, clock: Clock | None = None, busy_s: float = BUSY_S) -> None:
        super().__init__(statements.SqliteEventTable())
        self.path = path
        self._anchoring = Anchoring(path.with_suffix(".anchor"), "the state folder", fresh=True)
        self.anchor = self._anchoring.file
        self._clock = clock or SystemClock()
        self.lease_table = SqliteLeaseTable()
        self.outbox_table = SqliteOutboxTable(self._clock.now_us)
        self._line = Line()
        self._view = JournalHeads(NOTHING, {})
        self._doubt: Sealed | None = None
        self._session = SqliteSession(path, busy_s, self._forked)
        self._session.open()

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
        waiting = PendingAppend(Batch(tuple(events), stream, expect, key), durable=durable, fences=fences)
        reach(BEFORE_BEGIN)
        if self._session.is_used_here or self._line.is_led_here:
            # A signal handler whose thread has the connection, or leads the line: nobody else may be waited for.
            with self._session.lock, self._session:
                self._carry([waiting])
            return waiting.answer()
        line = self._line
        return line.append(waiting, lambda: self._lead(line))

    def _lead(self, line: Line) -> None:
        """Commit what stands in line, for everybody who waits there."""
        with self._session.lock, self._session:
            group = line.take(GROUP_MAX)
            try:
                self._carry(group)
            except BaseException:
                line.give_back(group)  # an interrupt is for this thread alone
                raise

    def _carry(self, group: Sequence[PendingAppend]) -> None:
        """Commit a group; where that fails, each of it by itself, so that each has an error of its own."""
        try:
            self._hold(lambda _: [waiting for waiting in group if not waiting.is_done])
        except Exception as error:  # noqa: BLE001  each of them raises it in its own thread
            left = [waiting for waiting in group if not waiting.is_done]
            for waiting in left:
                if len(left) == 1 or isinstance(error, apsw.BusyError):  # of which nobody has to wait again
                    waiting.end(explain(error, self.path) if isinstance(error, apsw.Error) else error)
                else:
                    self._carry([waiting])

    def ask(self, work: Callable[[apsw.Connection], T]) -> T:
        with self._session.lock, self._session as db:
            return work(db)

    def change(self, work: Callable[[apsw.Connection], T]) -> T:
        done: list[T] = []

        def write(db: apsw.Connection) -> list[Event]:
            done.append(work(db))
            return []

        self.decide(write, durable=False)
        return done[0]

    def decide(
        self,
        work: Callable[[apsw.Connection], Sequence[Event]],
        *,
        durable: bool = True,
        seated: bool = False,  # noqa: ARG002  it is with its folder
    ) -> None:
        said: list[PendingAppend] = []

        def group(db: apsw.Connection) -> Sequence[PendingAppend]:
            if events := work(db):
                said.append(PendingAppend(Batch(tuple(events), ids.WORKSPACE, None, ""), durable=durable))
            return said

        with self._session.lock, self._session:
            self._hold(group, durable=durable)
        for waiting in said:
            waiting.answer()

    def _hold(
        self, made: Callable[[apsw.Connection], Sequence[PendingAppend]], *, durable: bool = False
    ) -> None:
        """Write what is `made` in one transaction. Where it is `durable`, also what is no event is made so."""
        db = self._session.connection()
        statements.refuse_nesting(db)
        try:
            self._settle(db)
            with self._session.wal:
                sealed = self._write(db, made)
            self._finish(sealed, durable=durable or sealed.durable)
        except Exception:
            self._doubt = None  # after anything else nobody knows how far it came
            raise

    def _write(
        self, db: apsw.Connection, made: Callable[[apsw.Connection], Sequence[PendingAppend]]
    ) -> Sealed:
        try:
            head = statements.begin(db)
            sealed = self._seal(db, head, made(db))
            if sealed.rows:
                statements.insert(db, sealed.rows)
                self.outbox_table.project(db, sealed.records)
            reach(INSIDE)
            self._doubt = sealed
            db.execute("COMMIT")
        except BaseException:  # also an interrupt, wherever it comes
            statements.roll_back(db)
            raise
        return sealed

    def _seal(self, db: apsw.Connection, head: Head, group: Sequence[PendingAppend]) -> Sealed:
        """Put the events of a group behind the end of the journal, which nobody else moves now."""
        earlier = {key: found for key in keys_of(group) if (found := self.events.find(db, key))}
        if any(waiting.batch.key not in earlier for waiting in group):
            self._session.refuse_replaced()
            if not self._anchoring.is_trusted:
                refuse_shut(db)  # its anchor goes on with the journal, which is elsewhere now
            self._anchoring.trust(head, lambda after: statements.digests(db, after=after))
        known = self._view.ends if self._view.head == head else {}
        ends = {stream: self.events.head(db, stream) for stream in streams_of(group) - known.keys()}
        fences = fences_of(group)
        held = self.lease_table.held(db, fences) if fences else ()
        return seal(group, JournalHeads(head, {**known, **ends}), earlier, self._clock.now_us(), held)

    def _settle(self, db: apsw.Connection) -> None:
        """Find out what became of a group whose leader was interrupted: it must not be written again."""
        if (doubt := self._doubt) and doubt.rows:
            found = self.events.get(db, doubt.rows[0][0])
            if found and found[4] == doubt.rows[0][4]:
                self._finish(doubt, durable=doubt.durable)
        self._doubt = None

    def _finish(self, sealed: Sealed, *, durable: bool) -> None:
        """From here the events exist."""
        self._view = (
            sealed.view if len(sealed.view.ends) <= STREAMS_MAX else JournalHeads(sealed.view.head, {})
        )
        try:
            reach(COMMITTED)
            if durable:
                self._session.make_durable()
            self._anchoring.add([(row[0], row[4]) for row in sealed.rows], durable=durable)
            reach(ANCHORED)
        except Exception as error:
            self._anchoring.is_trusted = False  # the lines are left to the next append
            sealed.tell(error)
            raise
        sealed.tell()
        self._doubt = None

    @cached_property
    def outbox(self) -> StoredOutbox[apsw.Connection]:
        return StoredOutbox(self, self.outbox_table)

    @cached_property
    def leases(self) -> StoredLeases[apsw.Connection]:
        return StoredLeases(self, self.lease_table, self._clock.now_us)

    @cached_property
    def moving(self) -> SqliteMoving:
        return SqliteMoving(self)

    def check(self) -> Iterator[Finding]:
        # The anchor first: it is then never ahead of what is read after it, whoever appends meanwhile.
        anchored, findings = self._anchoring.read(is_needed=self._last_readable() > 0)
        yield from findings
        yield from self._check_database()
        yield from audit(self._rows(max(anchored, default=0)), anchored)

    def durable_head(self) -> Head:
        return self._anchoring.last()

    def sync(self) -> None:
        self.anchor.sync()

    def close(self) -> None:
        if self._session.close():
            try:
                self.anchor.sync()
            finally:
                self.anchor.close()

    def _forked(self) -> None:
        """In a child nobody else is there: those who stood in line, and whoever led, are threads of the parent."""
        self._line = Line()

    # Reading what is damaged

    def page(self, after: int, end: int, stream: str | None = None) -> list[Stored]:
        try:
            return super().page(after, end, stream)
        except CorruptionError as error:
            raise unreadable(after + 1, stream, error) from error

    def _check_database(self) -> Iterator[Finding]:
        try:
            texts = self.ask(statements.integrity)
        except CorruptionError as error:
            texts = [error.message]
        for text in texts:
            yield Finding("database", text)

    def _rows(self, anchored_max: int) -> Iterator[StoredOrTorn]:
        """Every row, also those behind a damaged page: where one cannot be read, each event is asked for."""
        at, end = statements.LOWEST, max(anchored_max, self._last_readable())
        while True:
            try:
                rows = self.page(at, HIGHEST)
            except CorruptionError:
                at = max(at, 0) + 1
                if at > end:
                    return
                yield from self._probe(at)
                continue
            if not rows:
                return
            for row in rows:
                at = max(at + 1, row[0])  # forward in any case: damage can make SQLite give rows again
                yield row

    def _last_readable(self) -> int:
        try:
            return self.head().count
        except CorruptionError:
            return 0

    def _probe(self, seq: int) -> list[StoredOrTorn]:
        try:
            row = self.ask(lambda db: self.events.get(db, seq))
            return [row] if row else []
        except CorruptionError:
            return [(seq, "", 0, "", "", None)]
