"""The outbox statements in SQLite: what each event changes, and how the outbox is read.

Claims expire by the machine's clock since boot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import apsw

from takeback.core import ids
from takeback.core import intents as i
from takeback.core.intents import IntentState, Queued
from takeback.core.record import Record
from takeback.ports.relocation import Stored
from takeback.storage.journal.batch import record_of
from takeback.storage.journal.outbox import OutboxTable, moved, queued_of
from takeback.system.clock import BootTime, boot_clock

_EVENT = "e.seq, e.stream, e.n, ifnull(e.key, ''), e.digest, CAST(e.body AS BLOB)"
_QUEUED = (
    "SELECT o.state, o.due_us, o.attempts, o.unsure, o.changed_us, o.fence, o.owner, o.boot, o.lease_us, "
    f"o.started, o.result, {_EVENT} FROM outbox o JOIN events e ON e.seq = o.id "
)
_COLUMNS = 11

_DEFERRED = "INSERT INTO outbox (id, run, state, ord, changed_us) VALUES (?, ?, 'held', nullif(?, ''), ?)"
# The first intent of an ordering key is due, the others wait behind it.
_PLACE = (
    "state = CASE WHEN EXISTS (SELECT 1 FROM outbox a WHERE a.ord IS NOT NULL AND a.ord = outbox.ord "
    "AND a.state IN ('queued', 'due', 'claimed')) THEN 'queued' ELSE 'due' END"
)
_RELEASED = (
    f"UPDATE outbox SET {_PLACE}, released = ?, due_us = ?, changed_us = ? WHERE id = ? AND state = 'held'"
)
_REVIVED = (
    f"UPDATE outbox SET {_PLACE}, attempts = 0, released = ?, due_us = ?, changed_us = ? "
    "WHERE id = ? AND state = 'dead'"
)
_MOVED = (
    "UPDATE outbox SET state = ?, attempts = max(attempts, ?), unsure = unsure OR ?, due_us = ?, changed_us = ?, "
    "owner = '', boot = '', lease_us = 0, started = 0 WHERE id = ? RETURNING ord"
)
_FAILED = "INSERT INTO outbox_attempts (seq, intent) VALUES (?, ?)"
_NEXT = (
    "UPDATE outbox SET state = 'due' WHERE id = (SELECT id FROM outbox WHERE ord = ? AND state = 'queued' "
    "ORDER BY released, id LIMIT 1) AND NOT EXISTS (SELECT 1 FROM outbox WHERE ord = ? AND "
    "state IN ('due', 'claimed'))"
)

_LAPSED = "SELECT id FROM outbox WHERE state = 'claimed' AND (boot <> ? OR lease_us <= ?) ORDER BY id LIMIT ?"
_DUE = "SELECT id FROM outbox WHERE state = 'due' AND due_us <= ? ORDER BY due_us, id LIMIT ?"
_DUE_OF_RUN = (
    "SELECT id FROM outbox WHERE run = ? AND state = 'due' AND due_us <= ? ORDER BY due_us, id LIMIT ?"
)
_CLAIM = (
    "UPDATE outbox SET state = 'claimed', fence = fence + 1, owner = ?, boot = ?, lease_us = ?, started = 0 "
    "WHERE id = ?"
)
_MINE = "SELECT 1 FROM outbox WHERE id = ? AND state = 'claimed' AND fence = ?"
_START = "UPDATE outbox SET started = ? WHERE id = ?"
_RENEW = "UPDATE outbox SET lease_us = ? WHERE id = ?"
_ATTEMPTS = (
    f"SELECT {_EVENT} FROM outbox_attempts a JOIN events e ON e.seq = a.seq WHERE a.intent = ? ORDER BY a.seq"
)
_IS_WORK = (
    "SELECT EXISTS (SELECT 1 FROM outbox WHERE state = 'due' AND due_us <= ?) "
    "OR EXISTS (SELECT 1 FROM outbox WHERE state = 'claimed' AND (boot <> ? OR lease_us <= ?))"
)


class SqliteOutboxTable(OutboxTable[apsw.Connection]):
    """The intents in a journal's database."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us

    def project(self, db: apsw.Connection, records: Sequence[Record]) -> None:
        for record in records:
            if apply := _PROJECT.get(type(record.event)):
                apply(db, record, record.event)

    def now_us(self, db: apsw.Connection) -> int:  # noqa: ARG002  the machine's own clock
        return self._now_us()

    # Claims

    def is_work(self, db: apsw.Connection) -> bool:
        return bool(db.execute(_IS_WORK, (self._now_us(), *boot_clock())).get)

    def lapsed(self, db: apsw.Connection, limit: int) -> list[Queued]:
        """Return the intents whose claim has expired, or was made in an earlier boot."""
        return _many(db, [id for (id,) in _rows(db, _LAPSED, (*boot_clock(), limit))])

    def claim(self, db: apsw.Connection, owner: str, limit: int, lease_s: float, run: str) -> list[Queued]:
        now, now_us = boot_clock(), self._now_us()
        due = _rows(db, _DUE_OF_RUN, (run, now_us, limit)) if run else _rows(db, _DUE, (now_us, limit))
        found = [id for (id,) in due]
        db.executemany(_CLAIM, [(owner, now.boot, now.us + int(lease_s * 1e6), id) for id in found])
        return _many(db, found)

    def start(self, db: apsw.Connection, queued: Sequence[Queued], *, begun: bool) -> frozenset[str]:
        return self._each(db, _START, int(begun), queued)

    def renew(self, db: apsw.Connection, queued: Sequence[Queued], lease_s: float) -> frozenset[str]:
        return self._each(db, _RENEW, boot_clock().us + int(lease_s * 1e6), queued)

    def held_of(self, db: apsw.Connection, queued: Sequence[Queued]) -> frozenset[str]:
        return frozenset(
            one.id for one in queued if db.execute(_MINE, (ids.seq_of(one.id), one.fence)).get is not None
        )

    def requeue(self, db: apsw.Connection, queued: Queued) -> None:
        db.execute("UPDATE outbox SET state = 'due', owner = '' WHERE id = ?", (ids.seq_of(queued.id),))

    def keep_results(self, db: apsw.Connection, results: Mapping[str, bytes]) -> None:
        given = [(result, ids.seq_of(id)) for id, result in results.items()]
        db.executemany("UPDATE outbox SET result = ? WHERE id = ?", given)

    def _each(
        self, db: apsw.Connection, statement: str, value: int, queued: Sequence[Queued]
    ) -> frozenset[str]:
        held = self.held_of(db, queued)
        db.executemany(statement, [(value, ids.seq_of(id)) for id in held])
        return held

    # Looking

    def one(self, db: apsw.Connection, id: str, *, held: bool = False) -> Queued | None:  # noqa: ARG002  all are
        return _one(db, ids.seq_of(id), boot_clock())

    def of_owner(self, db: apsw.Connection, owner: str) -> list[Queued]:
        now = boot_clock()
        query = f"{_QUEUED} WHERE o.state = 'claimed' AND o.owner = ? ORDER BY o.id"
        return [_queued(row, now) for row in _rows(db, query, (owner,))]

    def owners(self, db: apsw.Connection) -> list[str]:
        query = "SELECT DISTINCT owner FROM outbox WHERE state = 'claimed' ORDER BY owner"
        return [owner for (owner,) in _rows(db, query, ())]

    def page(
        self, db: apsw.Connection, states: Sequence[IntentState], after: int, limit: int, run: str
    ) -> list[Queued]:
        now, marks, of_run = boot_clock(), ", ".join("?" * len(states)), "AND o.run = ? " if run else ""
        query = f"{_QUEUED} WHERE o.state IN ({marks}) AND o.id > ? {of_run}ORDER BY o.id LIMIT ?"
        given = (*(state.value for state in states), after, *([run] if run else []), limit)
        return [_queued(row, now) for row in _rows(db, query, given)]

    def attempts(self, db: apsw.Connection, id: str) -> list[Record]:
        return [record_of(cast("Stored", row)) for row in _rows(db, _ATTEMPTS, (ids.seq_of(id),))]

    def counts(self, db: apsw.Connection) -> dict[IntentState, int]:
        query = "SELECT state, count(*) FROM outbox GROUP BY state"
        return {IntentState(state): count for state, count in _rows(db, query, ())}

    def next_due_us(self, db: apsw.Connection) -> int:
        return cast("int", db.execute("SELECT ifnull(min(due_us), 0) FROM outbox WHERE state = 'due'").get)


# What each event changes


def _deferred(db: apsw.Connection, record: Record, event: i.IntentDeferred) -> None:
    db.execute(_DEFERRED, (record.seq, record.stream, event.order, record.at_us))


def _released(db: apsw.Connection, record: Record, event: i.IntentsReleased) -> None:
    at = record.at_us
    db.executemany(_RELEASED, [(record.seq, at, at, ids.seq_of(id)) for id in event.intents])


def _revived(db: apsw.Connection, record: Record, event: i.IntentRevived) -> None:
    db.execute(_REVIVED, (record.seq, record.at_us, record.at_us, ids.seq_of(event.intent)))


def _moved(db: apsw.Connection, record: Record, event: Any) -> None:
    id, after = ids.seq_of(event.intent), moved(event)
    if after.failed:
        db.execute(_FAILED, (record.seq, id))
    values = (after.state.value, after.attempt, int(after.unsure), after.due_us, record.at_us, id)
    order = db.execute(_MOVED, values).get
    if order and after.state is not IntentState.DUE:
        db.execute(_NEXT, (order, order))


_PROJECT: dict[type, Callable[[apsw.Connection, Record, Any], None]] = {
    i.IntentDeferred: _deferred,
    i.IntentsReleased: _released,
    i.IntentRevived: _revived,
    i.IntentAttempted: _moved,
    i.IntentDelivered: _moved,
    i.IntentDied: _moved,
    i.IntentCancelled: _moved,
    i.IntentDropped: _moved,
}


def _rows(db: apsw.Connection, query: str, given: tuple[Any, ...]) -> Iterator[Any]:
    return iter(list(db.execute(query, given)))


def _many(db: apsw.Connection, found: Sequence[int]) -> list[Queued]:
    now = boot_clock()
    every = (_one(db, id, now) for id in found)
    return [queued for queued in every if queued]


def _one(db: apsw.Connection, id: int, now: BootTime) -> Queued | None:
    row = cast("tuple[Any, ...] | None", db.execute(f"{_QUEUED} WHERE o.id = ?", (id,)).fetchone())
    return _queued(row, now) if row else None


def _queued(row: tuple[Any, ...], now: BootTime) -> Queued:
    state, due_us, attempts, unsure, changed_us, fence, owner, boot, lease_us, started, result = row[
        :_COLUMNS
    ]
    claimed = state == IntentState.CLAIMED
    elsewhere = claimed and boot != now.boot
    return queued_of(
        cast("Stored", row[_COLUMNS:]),
        state,
        result,
        changed_us=changed_us,
        due_us=due_us,
        attempts=attempts,
        unsure=bool(unsure),
        fence=fence,
        owner=owner,
        # After a reboot only what was synced survives, and the start of an attempt is not synced.
        begun=bool(started) or elsewhere,
        live=claimed and not elsewhere and lease_us > now.us,
    )
