"""The statements of the outbox in PostgreSQL: what each event does to it, and how it is looked at.

What changes a row holds it: whoever decides on an intent keeps it from beginning meanwhile, and the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from takeback.core import ids
from takeback.core import intents as i
from takeback.core.intents import Queued, State
from takeback.core.record import Record
from takeback.ports_moving import Stored
from takeback.storage.rows import record_of

if TYPE_CHECKING:
    import psycopg

    Db = psycopg.Connection[tuple[Any, ...]]

_EVENT = b"e.seq, e.stream, e.n, coalesce(e.key, ''), e.digest, e.body"
_QUEUED = (
    b"SELECT o.state, o.due_us, o.attempts, o.unsure, o.changed_us, o.fence, o.owner, o.started,"
    b" o.state = 'claimed' AND o.lease > clock_timestamp(), o.result, "
    + _EVENT
    + b" FROM takeback_store.outbox o JOIN takeback_store.events e ON e.workspace = o.workspace AND e.seq = o.id"
    b" WHERE o.workspace = %s "
)
_COLUMNS = 10
_HELD = b" FOR UPDATE OF o"

_NOW_US = b"(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_OUTBOX = b"UPDATE takeback_store.outbox o SET "
_WHICH = b" WHERE o.workspace = %s AND o.id = %s "

_DEFERRED = (
    b"INSERT INTO takeback_store.outbox (workspace, id, run, state, ord, changed_us)"
    b" VALUES (%s, %s, %s, 'held', nullif(%s, ''), %s)"
)
# The first of an ordering key is due, the others wait behind it. Due by the server's clock, which all go by.
_PLACE = (
    b"state = CASE WHEN EXISTS (SELECT FROM takeback_store.outbox a WHERE a.workspace = o.workspace"
    b" AND a.ord IS NOT NULL AND a.ord = o.ord AND a.state IN ('queued', 'due', 'claimed'))"
    b" THEN 'queued' ELSE 'due' END, due_us = " + _NOW_US + b", released = %s, changed_us = %s"
)
_RELEASED = _OUTBOX + _PLACE + _WHICH + b"AND o.state = 'held'"
_REVIVED = _OUTBOX + _PLACE + b", attempts = 0" + _WHICH + b"AND o.state = 'dead'"
_MOVED = (
    _OUTBOX
    + b"state = %s, attempts = greatest(attempts, %s), unsure = unsure OR %s, due_us = %s, changed_us = %s,"
    b" owner = '', lease = '-infinity', started = false" + _WHICH
)
_FAILED = b"INSERT INTO takeback_store.outbox_attempts (workspace, intent, seq) VALUES (%s, %s, %s)"
_NEXT = (
    b"WITH gone AS (SELECT workspace, ord FROM takeback_store.outbox o" + _WHICH + b"AND ord IS NOT NULL)"
    b" UPDATE takeback_store.outbox o SET state = 'due' FROM (SELECT q.id FROM takeback_store.outbox q, gone"
    b" WHERE q.workspace = gone.workspace AND q.ord = gone.ord AND q.state = 'queued'"
    b" ORDER BY q.released, q.id LIMIT 1) AS next"
    b" WHERE o.workspace = %s AND o.id = next.id AND NOT EXISTS (SELECT FROM takeback_store.outbox a, gone"
    b" WHERE a.workspace = gone.workspace AND a.ord = gone.ord AND a.state IN ('due', 'claimed'))"
)

_IS_LAPSED = b"o.state = 'claimed' AND o.lease <= clock_timestamp()"
_IS_DUE = b"o.state = 'due' AND o.due_us <= " + _NOW_US
_IS_WORK = (
    b"SELECT EXISTS (SELECT FROM takeback_store.outbox o WHERE o.workspace = %s AND " + _IS_DUE + b")"
    b" OR EXISTS (SELECT FROM takeback_store.outbox o WHERE o.workspace = %s AND " + _IS_LAPSED + b")"
)
_LAPSED = _QUEUED + b"AND " + _IS_LAPSED + b" ORDER BY o.id LIMIT %s" + _HELD
_DUE = (
    b"SELECT o.id FROM takeback_store.outbox o WHERE o.workspace = %s AND "
    + _IS_DUE
    + b" AND %s IN ('', o.run) ORDER BY o.due_us, o.id LIMIT %s"
)
_CLAIM = (
    _OUTBOX + b"state = 'claimed', fence = fence + 1, owner = %s, started = false,"
    b" lease = clock_timestamp() + %s * interval '1 second' WHERE o.workspace = %s AND o.id = ANY(%s)"
)
# In the order of their numbers, so that two that hold several do not wait for each other.
_HOLD_MINE = (
    b"SELECT o.workspace, o.id FROM takeback_store.outbox o,"
    b" unnest(%s::bigint[], %s::bigint[], %s::text[]) AS m(id, fence, owner)"
    b" WHERE o.workspace = %s AND o.id = m.id AND o.fence = m.fence AND o.owner = m.owner AND o.state = 'claimed'"
    b" ORDER BY o.id FOR UPDATE OF o"
)
_MINE = b"WITH mine AS (" + _HOLD_MINE + b") " + _OUTBOX
_OF_MINE = b" FROM mine WHERE o.workspace = mine.workspace AND o.id = mine.id RETURNING o.workspace, o.id"
_START = _MINE + b"started = true" + _OF_MINE
_RENEW = _MINE + b"lease = clock_timestamp() + %s * interval '1 second'" + _OF_MINE


# What each event does


def project(db: Db, workspace: int, records: Iterable[Record]) -> None:
    """Let the outbox follow the journal; inside the transaction that writes these records."""
    for record in records:
        if apply := _PROJECT.get(type(record.event)):
            apply(db, workspace, record, record.event)


def concerns(event: object) -> bool:
    """Whether the outbox follows an event of this kind."""
    return type(event) in _PROJECT


def _deferred(db: Db, workspace: int, record: Record, event: i.IntentDeferred) -> None:
    db.execute(_DEFERRED, (workspace, record.seq, record.stream, event.order, record.at_us))


def _released(db: Db, workspace: int, record: Record, event: i.IntentsReleased) -> None:
    for id in event.intents:
        db.execute(_RELEASED, (record.seq, record.at_us, workspace, ids.seq_of(id)))


def _revived(db: Db, workspace: int, record: Record, event: i.IntentRevived) -> None:
    db.execute(_REVIVED, (record.seq, record.at_us, workspace, ids.seq_of(event.intent)))


def _moved(db: Db, workspace: int, record: Record, event: Any) -> None:
    state, intent = i.AFTER[type(event)], ids.seq_of(event.intent)
    attempts, unsure = getattr(event, "attempt", 0), getattr(event, "unsure", False)
    due_us = getattr(event, "again_us", 0)
    if isinstance(event, i.IntentAttempted | i.IntentDied):
        db.execute(_FAILED, (workspace, intent, record.seq))
    db.execute(_MOVED, (state.value, attempts, unsure, due_us, record.at_us, workspace, intent))
    if state is not State.DUE:
        db.execute(_NEXT, (workspace, intent, workspace))


_PROJECT: dict[type, Callable[[Any, int, Record, Any], None]] = {
    i.IntentDeferred: _deferred,
    i.IntentsReleased: _released,
    i.IntentAttempted: _moved,
    i.IntentDelivered: _moved,
    i.IntentDied: _moved,
    i.IntentCancelled: _moved,
    i.IntentDropped: _moved,
    i.IntentRevived: _revived,
}


# Claims


def is_work(db: Db, workspace: int) -> bool:
    """Whether something is due, or a lease has run out."""
    return bool(_value(db, _IS_WORK, (workspace, workspace)))


def now_us(db: Db) -> int:
    """The time of the server."""
    return int(_value(db, b"SELECT " + _NOW_US, ()))


def lapsed(db: Db, workspace: int, limit: int) -> list[Queued]:
    """Those whose lease has run out, held."""
    return [_queued(row) for row in db.execute(_LAPSED, (workspace, limit))]


def claim(db: Db, workspace: int, owner: str, limit: int, lease_s: float, run: str) -> list[Queued]:
    """Take what is due."""
    found = [id for (id,) in db.execute(_DUE, (workspace, run, limit))]
    db.execute(_CLAIM, (owner, lease_s, workspace, found))
    queued = {one.id: one for one in many(db, workspace, found)}
    return [queued[ids.make(ids.INTENT, id)] for id in found]


def start(db: Db, workspace: int, queued: Sequence[Queued]) -> frozenset[str]:
    return _names(db.execute(_START, (*_claims(queued), workspace)))


def renew(db: Db, workspace: int, queued: Sequence[Queued], lease_s: float) -> frozenset[str]:
    return _names(db.execute(_RENEW, (*_claims(queued), workspace, lease_s)))


def held_of(db: Db, workspace: int, queued: Sequence[Queued]) -> frozenset[str]:
    """Those of these claims that still hold, kept so until the end of the transaction."""
    return _names(db.execute(_HOLD_MINE, (*_claims(queued), workspace)))


def let_go(db: Db, workspace: int, queued: Queued) -> None:
    """Nothing was tried: it is due as before."""
    db.execute(_OUTBOX + b"state = 'due', owner = ''" + _WHICH, (workspace, ids.seq_of(queued.id)))


def keep_result(db: Db, workspace: int, id: str, result: bytes) -> None:
    db.execute(_OUTBOX + b"result = %s" + _WHICH, (result, workspace, ids.seq_of(id)))


def _claims(queued: Sequence[Queued]) -> tuple[list[int], list[int], list[str]]:
    return [ids.seq_of(q.id) for q in queued], [q.fence for q in queued], [q.owner for q in queued]


def _names(found: Iterable[tuple[Any, ...]]) -> frozenset[str]:
    return frozenset(ids.make(ids.INTENT, id) for _, id in found)


# Looking


def one(db: Db, workspace: int, id: str, *, held: bool = False) -> Queued | None:
    """One intent; where it is `held`, nobody else changes it until the end of the transaction."""
    query = _QUEUED + b"AND o.id = %s" + (_HELD if held else b"")
    row = db.execute(query, (workspace, ids.seq_of(id))).fetchone()
    return _queued(row) if row else None


def many(db: Db, workspace: int, found: Sequence[int]) -> list[Queued]:
    return [_queued(row) for row in db.execute(_QUEUED + b"AND o.id = ANY(%s)", (workspace, list(found)))]


def of_owner(db: Db, workspace: int, owner: str) -> list[Queued]:
    query = _QUEUED + b"AND o.state = 'claimed' AND o.owner = %s ORDER BY o.id" + _HELD
    return [_queued(row) for row in db.execute(query, (workspace, owner))]


def owners(db: Db, workspace: int) -> list[str]:
    query = b"SELECT DISTINCT owner FROM takeback_store.outbox WHERE workspace = %s AND state = 'claimed'"
    return sorted(owner for (owner,) in db.execute(query, (workspace,)))


def page(db: Db, workspace: int, states: Sequence[str], after: int, limit: int, run: str) -> list[Queued]:
    query = _QUEUED + b"AND o.state = ANY(%s) AND o.id > %s AND %s IN ('', o.run) ORDER BY o.id LIMIT %s"
    return [_queued(row) for row in db.execute(query, (workspace, list(states), after, run, limit))]


def attempts(db: Db, workspace: int, id: str) -> list[Record]:
    query = (
        b"SELECT " + _EVENT + b" FROM takeback_store.outbox_attempts a JOIN takeback_store.events e"
        b" ON e.workspace = a.workspace AND e.seq = a.seq WHERE a.workspace = %s AND a.intent = %s ORDER BY a.seq"
    )
    return [record_of(cast("Stored", row)) for row in db.execute(query, (workspace, ids.seq_of(id)))]


def counts(db: Db, workspace: int) -> dict[State, int]:
    query = b"SELECT state, count(*) FROM takeback_store.outbox WHERE workspace = %s GROUP BY state"
    return {State(state): count for state, count in db.execute(query, (workspace,))}


def next_due_us(db: Db, workspace: int) -> int:
    query = (
        b"SELECT coalesce(min(due_us), 0) FROM takeback_store.outbox WHERE workspace = %s AND state = 'due'"
    )
    return int(_value(db, query, (workspace,)))


def _value(db: Db, query: bytes, given: tuple[Any, ...]) -> Any:
    row = db.execute(query, given).fetchone()
    return row[0] if row else 0


def _queued(row: tuple[Any, ...]) -> Queued:
    state, due_us, attempts, unsure, changed_us, fence, owner, started, live, result = row[:_COLUMNS]
    record = record_of(cast("Stored", row[_COLUMNS:]))
    assert isinstance(record.event, i.IntentDeferred)
    return Queued(
        record.id,
        record.stream,
        record.event,
        record.at_us,
        State(state),
        changed_us=changed_us,
        due_us=due_us,
        attempts=attempts,
        unsure=unsure,
        fence=fence,
        owner=owner,
        begun=started,
        live=live,
        result=msgspec.json.decode(result) if result else None,
    )
