"""The statements of the outbox in SQLite: what each event does to it, and how it is looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import apsw
import msgspec

from takeback.core import ids
from takeback.core import intents as i
from takeback.core.intents import IntentState, Queued
from takeback.core.record import Record
from takeback.ports.relocation import Stored
from takeback.storage.journal.batch import record_of
from takeback.system.clock import BootTime

_EVENT = "e.seq, e.stream, e.n, ifnull(e.key, ''), e.digest, CAST(e.body AS BLOB)"
_QUEUED = (
    "SELECT o.state, o.due_us, o.attempts, o.unsure, o.changed_us, o.fence, o.owner, o.boot, o.lease_us, "
    f"o.started, o.result, {_EVENT} FROM outbox o JOIN events e ON e.seq = o.id "
)
_COLUMNS = 11

_DEFERRED = "INSERT INTO outbox (id, run, state, ord, changed_us) VALUES (?, ?, 'held', nullif(?, ''), ?)"
# The first of an ordering key is due, the others wait behind it.
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
_IS_WORK = (
    "SELECT EXISTS (SELECT 1 FROM outbox WHERE state = 'due' AND due_us <= ?) "
    "OR EXISTS (SELECT 1 FROM outbox WHERE state = 'claimed' AND (boot <> ? OR lease_us <= ?))"
)


# What each event does


def project(db: apsw.Connection, records: Iterable[Record]) -> None:
    """Let the outbox follow the journal; inside the transaction that writes these records."""
    for record in records:
        if apply := _PROJECT.get(type(record.event)):
            apply(db, record, record.event)


def _deferred(db: apsw.Connection, record: Record, event: i.IntentDeferred) -> None:
    db.execute(_DEFERRED, (record.seq, record.stream, event.order, record.at_us))


def _released(db: apsw.Connection, record: Record, event: i.IntentsReleased) -> None:
    at = record.at_us
    db.executemany(_RELEASED, [(record.seq, at, at, ids.seq_of(id)) for id in event.intents])


def _attempted(db: apsw.Connection, record: Record, event: i.IntentAttempted) -> None:
    db.execute(_FAILED, (record.seq, ids.seq_of(event.intent)))
    _move(db, record, IntentState.DUE, event.intent, event.attempt, event.unsure, event.again_us)


def _delivered(db: apsw.Connection, record: Record, event: i.IntentDelivered) -> None:
    _move(db, record, IntentState.DELIVERED, event.intent, event.attempt)


def _died(db: apsw.Connection, record: Record, event: i.IntentDied) -> None:
    db.execute(_FAILED, (record.seq, ids.seq_of(event.intent)))
    _move(db, record, IntentState.DEAD, event.intent, event.attempt, event.unsure)


def _cancelled(db: apsw.Connection, record: Record, event: i.IntentCancelled) -> None:
    _move(db, record, IntentState.CANCELLED, event.intent, 0, event.unsure)


def _dropped(db: apsw.Connection, record: Record, event: i.IntentDropped) -> None:
    _move(db, record, IntentState.DROPPED, event.intent)


def _revived(db: apsw.Connection, record: Record, event: i.IntentRevived) -> None:
    db.execute(_REVIVED, (record.seq, record.at_us, record.at_us, ids.seq_of(event.intent)))


def _move(
    db: apsw.Connection,
    record: Record,
    state: IntentState,
    id: str,
    attempts: int = 0,
    unsure: bool = False,  # noqa: FBT001, FBT002
    due_us: int = 0,
) -> None:
    moved = (state.value, attempts, int(unsure), due_us, record.at_us, ids.seq_of(id))
    order = db.execute(_MOVED, moved).get
    if order and state is not IntentState.DUE:
        db.execute(_NEXT, (order, order))


_PROJECT: dict[type, Callable[[apsw.Connection, Record, Any], None]] = {
    i.IntentDeferred: _deferred,
    i.IntentsReleased: _released,
    i.IntentAttempted: _attempted,
    i.IntentDelivered: _delivered,
    i.IntentDied: _died,
    i.IntentCancelled: _cancelled,
    i.IntentDropped: _dropped,
    i.IntentRevived: _revived,
}


# Claims


def is_work(db: apsw.Connection, now_us: int, now: BootTime) -> bool:
    """Whether something is due, or a lease has run out."""
    return bool(db.execute(_IS_WORK, (now_us, now.boot, now.us)).get)


def lapsed(db: apsw.Connection, now: BootTime, limit: int) -> list[Queued]:
    """Those whose lease has run out, or was told by the clock of another boot."""
    return many(db, [id for (id,) in _rows(db, _LAPSED, (now.boot, now.us, limit))], now)


def due(db: apsw.Connection, now_us: int, limit: int, run: str) -> list[int]:
    found = _rows(db, _DUE_OF_RUN, (run, now_us, limit)) if run else _rows(db, _DUE, (now_us, limit))
    return [id for (id,) in found]


def claim(db: apsw.Connection, found: Sequence[int], owner: str, now: BootTime, lease_us: int) -> None:
    db.executemany(_CLAIM, [(owner, now.boot, now.us + lease_us, id) for id in found])


def is_mine(db: apsw.Connection, queued: Queued) -> bool:
    return db.execute(_MINE, (ids.seq_of(queued.id), queued.fence)).get is not None


def start(db: apsw.Connection, queued: Queued, *, begun: bool) -> None:
    db.execute("UPDATE outbox SET started = ? WHERE id = ?", (int(begun), ids.seq_of(queued.id)))


def renew(db: apsw.Connection, queued: Queued, now: BootTime, lease_us: int) -> None:
    db.execute("UPDATE outbox SET lease_us = ? WHERE id = ?", (now.us + lease_us, ids.seq_of(queued.id)))


def let_go(db: apsw.Connection, queued: Queued) -> None:
    """Nothing was tried: it is due as before."""
    db.execute("UPDATE outbox SET state = 'due', owner = '' WHERE id = ?", (ids.seq_of(queued.id),))


def keep_result(db: apsw.Connection, id: str, result: bytes) -> None:
    db.execute("UPDATE outbox SET result = ? WHERE id = ?", (result, ids.seq_of(id)))


# Looking


def one(db: apsw.Connection, id: int, now: BootTime) -> Queued | None:
    row = cast("tuple[Any, ...] | None", db.execute(f"{_QUEUED} WHERE o.id = ?", (id,)).fetchone())
    return _queued(row, now) if row else None


def many(db: apsw.Connection, found: Sequence[int], now: BootTime) -> list[Queued]:
    every = (one(db, id, now) for id in found)
    return [queued for queued in every if queued]


def of_owner(db: apsw.Connection, owner: str, now: BootTime) -> list[Queued]:
    query = f"{_QUEUED} WHERE o.state = 'claimed' AND o.owner = ? ORDER BY o.id"
    return [_queued(row, now) for row in _rows(db, query, (owner,))]


def owners(db: apsw.Connection) -> list[str]:
    return [owner for (owner,) in _rows(db, "SELECT DISTINCT owner FROM outbox WHERE state = 'claimed'", ())]


def page(
    db: apsw.Connection, states: Sequence[str], after: int, limit: int, run: str, now: BootTime
) -> list[Queued]:
    marks = ", ".join("?" * len(states))
    of_run = "AND o.run = ? " if run else ""
    query = f"{_QUEUED} WHERE o.state IN ({marks}) AND o.id > ? {of_run}ORDER BY o.id LIMIT ?"
    given = (*states, after, *([run] if run else []), limit)
    return [_queued(row, now) for row in _rows(db, query, given)]


def attempts(db: apsw.Connection, id: int) -> list[Record]:
    query = f"SELECT {_EVENT} FROM outbox_attempts a JOIN events e ON e.seq = a.seq WHERE a.intent = ? ORDER BY a.seq"
    return [record_of(cast("Stored", row)) for row in _rows(db, query, (id,))]


def counts(db: apsw.Connection) -> dict[IntentState, int]:
    query = "SELECT state, count(*) FROM outbox GROUP BY state"
    return {IntentState(state): count for state, count in _rows(db, query, ())}


def next_due_us(db: apsw.Connection) -> int:
    query = "SELECT ifnull(min(due_us), 0) FROM outbox WHERE state = 'due'"
    return cast("int", db.execute(query).get)


def _rows(db: apsw.Connection, query: str, given: tuple[Any, ...]) -> Iterator[Any]:
    return iter(list(db.execute(query, given)))


def _queued(row: tuple[Any, ...], now: BootTime) -> Queued:
    state, due_us, attempts, unsure, changed_us, fence, owner, boot, lease_us, started, result = row[
        :_COLUMNS
    ]
    record = record_of(cast("Stored", row[_COLUMNS:]))
    assert isinstance(record.event, i.IntentDeferred)
    claimed = state == IntentState.CLAIMED
    elsewhere = claimed and boot != now.boot
    return Queued(
        record.id,
        record.stream,
        record.event,
        record.at_us,
        IntentState(state),
        changed_us=changed_us,
        due_us=due_us,
        attempts=attempts,
        unsure=bool(unsure),
        fence=fence,
        owner=owner,
        # Of a boot before this one only what was synced is known, and that an attempt began is not.
        begun=bool(started) or elsewhere,
        live=claimed and not elsewhere and lease_us > now.us,
        result=msgspec.json.decode(result) if result else None,
    )
