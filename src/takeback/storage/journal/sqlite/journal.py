"""The journal in one SQLite file, with its anchor beside it.

One row holds one record. SQLite's write lock decides the order, a sync of the WAL after the lock is released makes
a commit durable, and the anchor gets its lines last. Threads that append at the same time share a transaction and
its sync (`Line`); a single writer commits alone. Reading holds no lock and no long transaction: a journal only
grows, so a snapshot is everything up to the record that was last at the time of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import apsw

from takeback.core import ids
from takeback.core.events import Event
from takeback.core.record import Record
from takeback.errors import CorruptionError
from takeback.ports.clock import Clock
from takeback.ports.journal import Finding, Head
from takeback.ports.progress import Progress, silent
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
from takeback.storage.journal.verify import VERIFYING, StoredOrTorn, whole_or_torn
from takeback.system.clock import SystemClock
from takeback.system.crash_points import crash_point, reach

if TYPE_CHECKING:
    from takeback.storage.journal.sqlite.compaction import SqliteCompaction

T = TypeVar("T")

BUSY_S = 10.0
GROUP_MAX = 256
STREAMS_MAX = 128

BEFORE_BEGIN = crash_point("journal-before-begin")
INSIDE = crash_point("journal-inside")
COMMITTED = crash_point("journal-committed")
ANCHORED = crash_point("journal-anchored")


class SqliteJournal(StoredJournal[apsw.Connection]):
    """A journal in the file `path`; its anchor has the same name, with the suffix `.anchor`.

    The folder must exist; `private_files.private_folder` creates it properly.
    """

    seats = None  # the journal moves with its folder

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
            # A signal handler whose thread uses the connection, or leads: it must not wait for another thread.
            with self._session.lock, self._session:
                self._carry([waiting])
            return waiting.answer()
        line = self._line
        return line.append(waiting, lambda: self._lead(line))

    def _lead(self, line: Line) -> None:
        """Commit the queued appends, for all threads that wait for them."""
        with self._session.lock, self._session:
            group = line.take(GROUP_MAX)
            try:
                self._carry(group)
            except BaseException:
                line.give_back(group)  # an interrupt is for this thread alone
                raise

    def _carry(self, group: Sequence[PendingAppend]) -> None:
        """Commit a group; if that fails, commit each append alone, so that each gets its own error."""
        try:
            self._hold(lambda _: [waiting for waiting in group if not waiting.is_done])
        except Exception as error:  # noqa: BLE001  each waiting thread raises it
            left = [waiting for waiting in group if not waiting.is_done]
            for waiting in left:
                if len(left) == 1 or isinstance(
                    error, apsw.BusyError
                ):  # waiting again for each one would not help
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
        seated: bool = False,  # noqa: ARG002  the journal moves with its folder
    ) -> None:
        pending: list[PendingAppend] = []

        def group(db: apsw.Connection) -> Sequence[PendingAppend]:
            if events := work(db):
                pending.append(PendingAppend(Batch(tuple(events), ids.WORKSPACE, None, ""), durable=durable))
            return pending

        with self._session.lock, self._session:
            self._hold(group, durable=durable)
        for waiting in pending:
            waiting.answer()

    def _hold(
        self, made: Callable[[apsw.Connection], Sequence[PendingAppend]], *, durable: bool = False
    ) -> None:
        """Write what `made` returns in one transaction. With `durable`, changes without an event are durable too."""
        db = self._session.connection()
        statements.refuse_nesting(db)
        try:
            self._settle(db)
            with self._session.wal:
                sealed = self._write(db, made)
            self._finish(sealed, durable=durable or sealed.durable)
        except Exception:
            self._doubt = None  # after any other error it is unknown how far the write came
            raise

    def _write(
        self, db: apsw.Connection, made: Callable[[apsw.Connection], Sequence[PendingAppend]]
    ) -> Sealed:
        try:
            head = statements.begin(db)
            sealed = self._seal(db, head, made(db))
            if sealed.rows:
                statements.insert(db, self.packed(db, sealed.rows, sealed.records))
                self.outbox_table.project(db, sealed.records)
            reach(INSIDE)
            self._doubt = sealed
            db.execute("COMMIT")
        except BaseException:  # including an interrupt, at any point
            statements.roll_back(db)
            raise
        return sealed

    def _seal(self, db: apsw.Connection, head: Head, group: Sequence[PendingAppend]) -> Sealed:
        """Seal the events of a group behind the end of the journal, which no other process can move now."""
        earlier = {key: found for key in keys_of(group) if (found := self.events.find(db, key))}
        if any(waiting.batch.key not in earlier for waiting in group):
            self._session.refuse_replaced()
            if not self._anchoring.is_trusted:
                refuse_shut(db)  # the anchor covers the moved journal as well; do not add to it here
            self._anchoring.trust(head, lambda after: statements.digests(db, after=after))
        known = self._view.ends if self._view.head == head else {}
        ends = {stream: self.events.head(db, stream) for stream in streams_of(group) - known.keys()}
        fences = fences_of(group)
        held = self.lease_table.held(db, fences) if fences else ()
        return seal(group, JournalHeads(head, {**known, **ends}), earlier, self._clock.now_us(), held)

    def _settle(self, db: apsw.Connection) -> None:
        """Find out what became of a group whose leader was interrupted: it must not be written twice."""
        if (doubt := self._doubt) and doubt.rows:
            found = self.events.row(db, doubt.rows[0][0])
            if found and found[4] == doubt.rows[0][4]:
                self._finish(doubt, durable=doubt.durable)
        self._doubt = None

    def _finish(self, sealed: Sealed, *, durable: bool) -> None:
        """Report the events as written: they exist from here on."""
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
            self._anchoring.is_trusted = False  # the next append adds the lines
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

    @cached_property
    def compaction(self) -> SqliteCompaction:
        from takeback.storage.journal.sqlite.compaction import (
            SqliteCompaction,  # most commands compact nothing
        )

        return SqliteCompaction(self)

    def check(self, *, since: int = 0, progress: Progress = silent) -> Iterator[Finding]:
        from takeback.storage.journal.compaction import audited

        # Read the anchor first: then it is never ahead of the rows read after it, even if others append meanwhile.
        last = self._last_readable()
        anchored, findings = self._anchoring.read(is_needed=last > 0, since=since)
        yield from findings
        if not since:  # SQLite's own check reads the whole file
            yield from self._check_database()
        rows = progress(VERIFYING, self._rows(max(anchored, default=0), since), last - since)
        yield from audited(self, rows, anchored, since)

    def shrink(self, live_bytes_max: int) -> str:
        """Write the file again without free room, unless that is too much to let writers wait for it."""
        with self._session.lock, self._session as db, self._session.wal:
            try:
                return statements.shrink(db, live_bytes_max)
            except (apsw.FullError, apsw.BusyError, apsw.LockedError, apsw.IOError) as error:
                return f"{error}"

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
        """Reset the queue in a forked child: the threads that waited in it, or led, exist only in the parent."""
        self._line = Line()

    # Reading damaged files

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

    def _rows(self, anchored_max: int, since: int) -> Iterator[StoredOrTorn]:
        """Yield every row, including those behind a damaged page: there, each event is read by its number."""
        at, end = since or statements.LOWEST, max(anchored_max, self._last_readable())
        unpacker = self.unpacker()
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
                yield whole_or_torn(row, unpacker)

    def _last_readable(self) -> int:
        try:
            return self.head().count
        except CorruptionError:
            return 0

    def _probe(self, seq: int) -> list[StoredOrTorn]:
        try:
            row = self.ask(lambda db: self.events.row(db, seq))
            return [whole_or_torn(row, self.unpacker())] if row else []
        except CorruptionError:
            return [(seq, "", 0, "", "", "its content is damaged on the disk")]
