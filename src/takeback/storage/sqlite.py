"""The journal in one SQLite file, with its anchor beside it.

One row holds one record. A batch is one transaction: SQLite's write lock gives the order; a sync of its WAL, after
the lock, gives durability; and the anchor gets its lines afterwards. Reading holds no lock and no long transaction: a
journal only grows, so what stood at the time of the call is all up to the last record then.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import apsw

from takeback.core import ids
from takeback.core.events import Event
from takeback.core.record import Record
from takeback.errors import CorruptionError, UsageError
from takeback.faults import crash_point, reach
from takeback.ports import Clock, Finding, Head
from takeback.ports_moving import Stored
from takeback.storage import forks, sqlite_leases, sqlite_outbox_rows, sqlite_rows
from takeback.storage.anchor import Anchor, Line
from takeback.storage.audit import StoredOrTorn, audit
from takeback.storage.clock import SystemClock
from takeback.storage.private import unusable
from takeback.storage.rows import Batch, cut, missing, record_of, refuse_lost, unreadable
from takeback.storage.sqlite_errors import explain
from takeback.storage.sqlite_file import Wal, connect
from takeback.storage.sqlite_moving import SqliteMoving, refuse_shut
from takeback.storage.sqlite_outbox import SqliteOutbox

BUSY_S = 10.0
LOOK_S = 1.0

BEFORE_BEGIN = crash_point("journal-before-begin")
INSIDE = crash_point("journal-inside")
COMMITTED = crash_point("journal-committed")
ANCHORED = crash_point("journal-anchored")
CATCHING_UP = crash_point("journal-catching-up")


class SqliteJournal:
    """A journal in the file `path`; its anchor is the file of that name with the ending `.anchor`.

    Its folder must be there; `private.private_folder` makes it as it should be.
    """

    seats = None  # it is with its folder

    def __init__(self, path: Path, *, clock: Clock | None = None, busy_s: float = BUSY_S) -> None:
        self.path = path
        self._name = str(path)
        self.anchor = Anchor(path.with_suffix(".anchor"))
        self._clock = clock or SystemClock()
        self._busy_s = busy_s
        self._is_anchored = False
        self._is_closed = False
        self._seen = 0
        self._look_again_s = 0.0
        # Reentrant, so that a signal handler that appends while its thread appends gets an error, not stuck.
        self.lock = threading.RLock()
        self._db: apsw.Connection | None = None
        self._wal = Wal(path)
        self._file = (0, 0)
        with _Using(self):
            forks.watch(self)

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
        batch = Batch(tuple(events), stream, expect, key)

        def decide() -> Batch:
            if fences and not sqlite_rows.find(db, key):
                refuse_lost(fences, sqlite_leases.held(db, fences))
            return batch

        reach(BEFORE_BEGIN)
        with _Using(self) as db:
            with self._wal:
                records, is_new = self._commit(db, batch.stream, decide)
            # Also where the key was used before: who committed that may not have come as far as the sync.
            self._written(records if is_new else (), durable=durable)
            return records

    def decide(
        self, decide: Callable[[apsw.Connection], Sequence[Event]], *, durable: bool = True
    ) -> tuple[Record, ...]:
        """For the outbox: look and write inside of a transaction, and append what is to be said to the workspace."""

        def batch() -> Batch | None:
            events = decide(db)
            return Batch(tuple(events), ids.WORKSPACE, None, "") if events else None

        with _Using(self) as db:
            with self._wal:
                records, _ = self._commit(db, ids.WORKSPACE, batch)
            self._written(records, durable=durable)
            return records

    def using(self) -> _Using:
        """For the outbox: the connection, to look at."""
        return _Using(self)

    @cached_property
    def outbox(self) -> SqliteOutbox:
        return SqliteOutbox(self, self._clock.now_us)

    @cached_property
    def leases(self) -> sqlite_leases.SqliteLeases:
        return sqlite_leases.SqliteLeases(self, self._clock.now_us)

    @cached_property
    def moving(self) -> SqliteMoving:
        return SqliteMoving(self)

    def _written(self, records: Sequence[Record], *, durable: bool) -> None:
        if durable:
            self._make_durable()
        if records:
            self._seen = records[-1].seq
            self._write_anchor([(record.envelope.seq, record.digest) for record in records])
            reach(ANCHORED)

    def read(self, *, after: int = 0, stream: str | None = None) -> Iterator[Record]:
        with _Using(self) as db:
            end = sqlite_rows.head(db, stream).count
            start = max(0, after) if stream is None else sqlite_rows.count_at(db, stream, after)
        return self._records(start, end, stream)

    def get(self, seq: int) -> Record | None:
        with _Using(self) as db:
            row = sqlite_rows.get(db, seq)
        return record_of(row) if row else None

    def find(self, key: str) -> tuple[Record, ...]:
        with _Using(self) as db:
            return sqlite_rows.find(db, key)

    def head(self, stream: str | None = None) -> Head:
        with _Using(self) as db:
            return sqlite_rows.head(db, stream)

    def check(self) -> Iterator[Finding]:
        # The anchor first: it is then never ahead of what is read after it, whoever appends meanwhile.
        anchored, findings = self._anchored()
        yield from findings
        yield from self._check_database()
        yield from audit(self._rows(max(anchored, default=0)), anchored)

    def sync(self) -> None:
        self.anchor.sync()

    def close(self) -> None:
        with self.lock:
            if self._is_closed:
                return
            self._is_closed = True
            forks.unwatch(self)
            self._let_go()
            try:
                self.anchor.sync()
            finally:
                self.anchor.close()

    def _commit(
        self, db: apsw.Connection, stream: str, decide: Callable[[], Batch | None]
    ) -> tuple[tuple[Record, ...], bool]:
        """Write a batch in one transaction; where its key was used before, give that back instead."""
        sqlite_rows.refuse_nesting(db)
        try:
            last, head = sqlite_rows.begin(db, stream)
            if (batch := decide()) is None:
                db.execute("COMMIT")
                return (), False
            earlier = sqlite_rows.find(db, batch.key) if batch.key else ()
            if earlier:
                db.execute("COMMIT")
                return batch.answer(earlier), False
            self._trust(db, last)
            rows, records = batch.seal(seq=last + 1, head=head, at_us=self._clock.now_us())
            sqlite_rows.insert(db, rows)
            sqlite_outbox_rows.project(db, records)
            reach(INSIDE)
            db.execute("COMMIT")
        except BaseException:  # also an interrupt, wherever it comes
            sqlite_rows.roll_back(db)
            raise
        reach(COMMITTED)  # from here the events exist
        return records, True

    # The connection

    def connection(self) -> apsw.Connection:
        """The connection, made where there is none; for the thread that holds the lock."""
        if self._is_closed:
            raise UsageError("the journal is closed; nothing was recorded")
        if self._db is None:
            self._db = connect(self.path, busy_s=self._busy_s)
            self._file = _identity(self._name)
            try:
                self._wal.open()
            except OSError as error:
                self._let_go()
                raise unusable(self._wal.path, error) from error
        return self._db

    def _make_durable(self) -> None:
        try:
            self._wal.sync()
        except OSError as error:
            # What the system says of these bytes from now on is no proof: closing writes them anew elsewhere.
            # Their lines in the anchor are left to the next append.
            self._let_go()
            self._is_anchored = False
            raise unusable(self._wal.path, error) from error

    def _let_go(self) -> None:
        self._wal.close()
        db, self._db = self._db, None
        if db is not None:
            db.close(True)

    def hold_still(self) -> None:
        """For `forks`: the connection does not go over into a child."""
        self.lock.acquire()
        self._let_go()

    def go_on(self) -> None:
        self.lock.release()

    # The anchor

    def _trust(self, db: apsw.Connection, last: int) -> None:
        """Refuse to go on from a journal that is not the one which was written; inside the transaction."""
        if self._is_replaced():
            raise CorruptionError(
                f"{self.path} was removed or replaced while it was open. Nothing was recorded",
                hint="open it again; `takeback verify` then names what is missing",
            )
        if last < self._seen:
            raise cut(last, self._seen)
        if self._is_anchored:
            return
        refuse_shut(db)  # its anchor goes on with the journal that is elsewhere now
        try:
            if not self.anchor.exists():
                self.anchor.start(lost=last)
            self._catch_up(db, last)
        except OSError as error:
            raise unusable(self.anchor.path, error) from error
        self._is_anchored = True

    def _is_replaced(self) -> bool:
        """Whether another file has the name of ours; looked at once a second, since a look takes its time."""
        now = time.monotonic()
        if now < self._look_again_s:
            return False
        if _identity(self._name) != self._file:
            return True
        self._look_again_s = now + LOOK_S
        return False

    def _catch_up(self, db: apsw.Connection, last: int) -> None:
        """Hold the end of the journal against that of the anchor, and add the lines that a crash left out."""
        tail = self.anchor.tail()
        if tail.high > last:
            raise cut(last, tail.high)
        lines: list[Line] = []
        for seq, digest in sqlite_rows.digests(db, after=tail.low):
            if tail.known.get(seq, digest) != digest:
                raise CorruptionError(
                    f"event {seq} is not the one that was written: the anchor differs. Nothing was recorded",
                    hint="`takeback verify` shows what else differs; restore the state folder from a backup",
                )
            if seq not in tail.known:
                lines.append((seq, digest))
        if lines:
            reach(CATCHING_UP)
            self.anchor.write(lines)

    def _write_anchor(self, lines: list[Line]) -> None:
        try:
            self.anchor.write(lines)
        except OSError:
            # The events are durable, the anchor is behind as after a crash: the next append adds the lines.
            self._is_anchored = False

    def _anchored(self) -> tuple[dict[int, str], list[Finding]]:
        try:
            return self.anchor.read()
        except FileNotFoundError:
            what = f"{self.anchor.path} is missing: the events are held by their chain alone"
            return {}, [Finding("anchor", what)] if self._last_readable() else []
        except OSError as error:
            raise unusable(self.anchor.path, error) from error

    # Reading

    def _records(self, at: int, end: int, stream: str | None) -> Iterator[Record]:
        """Records by place, in the journal or in a stream; pages keep both memory and transactions short."""
        column = 0 if stream is None else 2
        while at < end:
            try:
                rows = self._page(at, end, stream)
            except CorruptionError as error:
                raise unreadable(at + 1, stream, error) from error
            if not rows:
                raise missing(at + 1, stream)
            for row in rows:
                at += 1
                if row[column] != at:
                    raise missing(at, stream)
                yield record_of(row)

    def _page(self, at: int, end: int, stream: str | None = None) -> list[Stored]:
        with _Using(self) as db:
            return sqlite_rows.page(db, at, end, stream)

    def _check_database(self) -> Iterator[Finding]:
        try:
            with _Using(self) as db:
                texts = sqlite_rows.integrity(db)
        except CorruptionError as error:
            texts = [error.message]
        for text in texts:
            yield Finding("database", text)

    def _rows(self, anchored_max: int) -> Iterator[StoredOrTorn]:
        """Every row, also those behind a damaged page: where one cannot be read, each event is asked for."""
        at, end = sqlite_rows.LOWEST, max(anchored_max, self._last_readable())
        while True:
            try:
                rows = self._page(at, sqlite_rows.HIGHEST)
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
            with _Using(self) as db:
                row = sqlite_rows.get(db, seq)
            return [row] if row else []
        except CorruptionError:
            return [(seq, "", 0, "", "", None)]


class _Using:
    """The connection of a journal, for one thread at a time, with its errors translated."""

    __slots__ = ("_journal",)

    def __init__(self, journal: SqliteJournal) -> None:
        self._journal = journal

    def __enter__(self) -> apsw.Connection:
        self._journal.lock.acquire()
        try:
            return self._journal.connection()
        except BaseException:
            self._journal.lock.release()
            raise

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._journal.lock.release()
        if isinstance(error, apsw.Error):
            raise explain(error, self._journal.path) from error


def _identity(path: str) -> tuple[int, int]:
    """Which file has this name now."""
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0)
    return found.st_dev, found.st_ino
