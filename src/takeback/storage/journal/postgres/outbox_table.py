"""The outbox statements in PostgreSQL: what each event changes, and how the outbox is read.

A statement that changes a row locks it. So a transaction that decides on an intent keeps a worker from starting it
meanwhile, and the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from takeback.core import ids
from takeback.core import intents as i
from takeback.core.intents import IntentState, Queued
from takeback.core.record import Record
from takeback.ports.relocation import Stored
from takeback.storage.journal.batch import record_of
from takeback.storage.journal.outbox import OutboxTable, moved, queued_of
from takeback.storage.journal.postgres.session import PostgresSession

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
    b" SELECT %s, m.id, m.run, 'held', nullif(m.ord, ''), m.at_us"
    b" FROM unnest(%b::bigint[], %b::text[], %b::text[], %b::bigint[]) AS m(id, run, ord, at_us)"
)
# The first intent of an ordering key is due, the others wait behind it. Due by the server's clock, which everyone
# uses.
_PLACE = (
    b"state = CASE WHEN EXISTS (SELECT FROM takeback_store.outbox a WHERE a.workspace = o.workspace"
    b" AND a.ord IS NOT NULL AND a.ord = o.ord AND a.state IN ('queued', 'due', 'claimed'))"
    b" THEN 'queued' ELSE 'due' END, due_us = " + _NOW_US + b", released = %s, changed_us = %s"
)
_RELEASED = _OUTBOX + _PLACE + _WHICH + b"AND o.state = 'held'"
_REVIVED = _OUTBOX + _PLACE + b", attempts = 0" + _WHICH + b"AND o.state = 'dead'"
_MOVED = (
    _OUTBOX + b"state = m.state, attempts = greatest(attempts, m.attempt), unsure = o.unsure OR m.unsure,"
    b" due_us = m.due_us, changed_us = m.at_us, owner = '', lease = '-infinity', started = false"
    b" FROM unnest(%b::bigint[], %b::text[], %b::int[], %b::bool[], %b::bigint[], %b::bigint[])"
    b" AS m(id, state, attempt, unsure, due_us, at_us)"
    b" WHERE o.workspace = %s AND o.id = m.id RETURNING o.ord, o.state"
)
_FAILED = (
    b"INSERT INTO takeback_store.outbox_attempts (workspace, intent, seq)"
    b" SELECT %s, m.* FROM unnest(%b::bigint[], %b::bigint[]) AS m"
)
# For each ordering key with nothing on its way: the first intent that waits.
_NEXT = (
    b"UPDATE takeback_store.outbox o SET state = 'due' FROM ("
    b"SELECT DISTINCT ON (q.ord) q.id FROM takeback_store.outbox q"
    b" WHERE q.workspace = %s AND q.ord = ANY(%s) AND q.state = 'queued' AND NOT EXISTS ("
    b"SELECT FROM takeback_store.outbox a WHERE a.workspace = q.workspace AND a.ord = q.ord"
    b" AND a.state IN ('due', 'claimed')) ORDER BY q.ord, q.released, q.id) AS next"
    b" WHERE o.workspace = %s AND o.id = next.id"
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
# In the order of their ids, so that two transactions that lock several do not deadlock. Each is looked up by id
# alone: otherwise the server would scan all claimed intents, since its statistics say that they are few.
_HOLD_MINE = (
    b"SELECT h.workspace, h.id FROM unnest(%b::bigint[], %b::bigint[], %b::text[]) AS m(id, fence, owner)"
    b" CROSS JOIN LATERAL (SELECT o.workspace, o.id, o.fence, o.owner, o.state FROM takeback_store.outbox o"
    b" WHERE o.workspace = %s AND o.id = m.id FOR UPDATE) AS h"
    b" WHERE h.fence = m.fence AND h.owner = m.owner AND h.state = 'claimed'"
)
_MINE = b"WITH mine AS (" + _HOLD_MINE + b") " + _OUTBOX
_OF_MINE = b" FROM mine WHERE o.workspace = mine.workspace AND o.id = mine.id RETURNING o.workspace, o.id"
_RESULTS = (
    _OUTBOX + b"result = m.result FROM unnest(%b::bigint[], %b::bytea[]) AS m(id, result)"
    b" WHERE o.workspace = %s AND o.id = m.id"
)
_START = _MINE + b"started = %s" + _OF_MINE
_RENEW = _MINE + b"lease = clock_timestamp() + %s * interval '1 second'" + _OF_MINE
_ATTEMPTS = (
    b"SELECT " + _EVENT + b" FROM takeback_store.outbox_attempts a JOIN takeback_store.events e"
    b" ON e.workspace = a.workspace AND e.seq = a.seq WHERE a.workspace = %s AND a.intent = %s ORDER BY a.seq"
)
_OWNERS = b"SELECT DISTINCT owner FROM takeback_store.outbox WHERE workspace = %s AND state = 'claimed'"
_COUNTS = b"SELECT state, count(*) FROM takeback_store.outbox WHERE workspace = %s GROUP BY state"
_NEXT_DUE = (
    b"SELECT coalesce(min(due_us), 0) FROM takeback_store.outbox WHERE workspace = %s AND state = 'due'"
)


class PostgresOutboxTable(OutboxTable["Db"]):
    """The intents of one workspace."""

    def __init__(self, session: PostgresSession) -> None:
        self._session = session

    @property
    def _id(self) -> int:
        return self._session.id

    def project(self, db: Db, records: Sequence[Record]) -> None:
        project(db, self._id, records)

    def now_us(self, db: Db) -> int:
        """Return the server's time."""
        return int(_value(db, b"SELECT " + _NOW_US, ()))

    # Claims

    def is_work(self, db: Db) -> bool:
        return bool(_value(db, _IS_WORK, (self._id, self._id)))

    def lapsed(self, db: Db, limit: int) -> list[Queued]:
        return [_queued(row) for row in db.execute(_LAPSED, (self._id, limit))]

    def claim(self, db: Db, owner: str, limit: int, lease_s: float, run: str) -> list[Queued]:
        found = [id for (id,) in db.execute(_DUE, (self._id, run, limit))]
        db.execute(_CLAIM, (owner, lease_s, self._id, found))
        rows = db.execute(_QUEUED + b"AND o.id = ANY(%s)", (self._id, found))
        queued = {one.id: one for one in map(_queued, rows)}
        return [queued[ids.make(ids.INTENT, id)] for id in found]

    def start(self, db: Db, queued: Sequence[Queued], *, begun: bool) -> frozenset[str]:
        # Durable: if the server forgot it, an intent that is on its way could be cancelled.
        return _names(db.execute(_START, (*_claims(queued), self._id, begun)))

    def renew(self, db: Db, queued: Sequence[Queued], lease_s: float) -> frozenset[str]:
        return _names(db.execute(_RENEW, (*_claims(queued), self._id, lease_s)))

    def held_of(self, db: Db, queued: Sequence[Queued]) -> frozenset[str]:
        return _names(db.execute(_HOLD_MINE, (*_claims(queued), self._id)))

    def requeue(self, db: Db, queued: Queued) -> None:
        db.execute(_OUTBOX + b"state = 'due', owner = ''" + _WHICH, (self._id, ids.seq_of(queued.id)))

    def keep_results(self, db: Db, results: Mapping[str, bytes]) -> None:
        given = [ids.seq_of(id) for id in results], list(results.values())
        db.execute(_RESULTS, (*given, self._id))

    # Looking

    def one(self, db: Db, id: str, *, held: bool = False) -> Queued | None:
        query = _QUEUED + b"AND o.id = %s" + (_HELD if held else b"")
        row = db.execute(query, (self._id, ids.seq_of(id))).fetchone()
        return _queued(row) if row else None

    def of_owner(self, db: Db, owner: str) -> list[Queued]:
        query = _QUEUED + b"AND o.state = 'claimed' AND o.owner = %s ORDER BY o.id" + _HELD
        return [_queued(row) for row in db.execute(query, (self._id, owner))]

    def owners(self, db: Db) -> list[str]:
        return sorted(owner for (owner,) in db.execute(_OWNERS, (self._id,)))

    def page(self, db: Db, states: Sequence[IntentState], after: int, limit: int, run: str) -> list[Queued]:
        query = _QUEUED + b"AND o.state = ANY(%s) AND o.id > %s AND %s IN ('', o.run) ORDER BY o.id LIMIT %s"
        given = (self._id, [state.value for state in states], after, run, limit)
        return [_queued(row) for row in db.execute(query, given)]

    def attempts(self, db: Db, id: str) -> list[Record]:
        rows = db.execute(_ATTEMPTS, (self._id, ids.seq_of(id)))
        return [record_of(cast("Stored", row)) for row in rows]

    def counts(self, db: Db) -> dict[IntentState, int]:
        return {IntentState(state): count for state, count in db.execute(_COUNTS, (self._id,))}

    def next_due_us(self, db: Db) -> int:
        return int(_value(db, _NEXT_DUE, (self._id,)))


# What each event changes


def project(db: Db, workspace: int, records: Iterable[Record]) -> None:
    """Update the outbox of a workspace for these records, in the transaction that writes them."""
    for follow, alike in _batches(records):
        follow(db, workspace, alike)


def concerns(event: object) -> bool:
    """Return True if the outbox depends on events of this kind."""
    return type(event) in _PROJECT


Follow = Callable[["Db", int, Sequence[Any]], None]
"""Updates the outbox for some records of the same kind."""


def _batches(records: Iterable[Record]) -> Iterator[tuple[Follow, list[Record]]]:
    """Group records for one statement each: consecutive, of the same kind, each for another intent."""
    batch: list[Record] = []
    before, seen = None, set[str]()
    for record in records:
        follow, intent = _PROJECT.get(type(record.event)), getattr(record.event, "intent", "")
        if follow is not before or intent in seen:
            if before:
                yield before, batch
            batch, seen = [], set()
        batch.append(record)
        seen |= {intent} - {""}
        before = follow
    if before:
        yield before, batch


def _deferred(db: Db, workspace: int, records: Sequence[Any]) -> None:
    rows = [(record.seq, record.stream, record.event.order, record.at_us) for record in records]
    db.execute(_DEFERRED, (workspace, *_columns(rows)))


def _released(db: Db, workspace: int, records: Sequence[Any]) -> None:
    # One after the other: only the first intent of an ordering key becomes due.
    given = [(r.seq, r.at_us, workspace, ids.seq_of(id)) for r in records for id in r.event.intents]
    _each(db, _RELEASED, given)


def _revived(db: Db, workspace: int, records: Sequence[Any]) -> None:
    _each(db, _REVIVED, [(r.seq, r.at_us, workspace, ids.seq_of(r.event.intent)) for r in records])


def _moved(db: Db, workspace: int, records: Sequence[Any]) -> None:
    made = [(ids.seq_of(record.event.intent), record, moved(record.event)) for record in records]
    if failed := [(id, record.seq) for id, record, after in made if after.failed]:
        db.execute(_FAILED, (workspace, *_columns(failed)))
    rows = [
        (id, after.state.value, after.attempt, after.unsure, after.due_us, record.at_us)
        for id, record, after in made
    ]
    found = db.execute(_MOVED, (*_columns(rows), workspace))
    if freed := sorted({order for order, state in found if order is not None and state != IntentState.DUE}):
        db.execute(_NEXT, (workspace, freed, workspace))


def _columns(rows: Sequence[tuple[Any, ...]]) -> Iterator[list[Any]]:
    return map(list, zip(*rows, strict=True))


def _each(db: Db, statement: bytes, rows: Sequence[tuple[Any, ...]]) -> None:
    with db.cursor() as cursor:
        cursor.executemany(statement, rows)  # without waiting for each answer


_PROJECT: dict[type, Follow] = {
    i.IntentDeferred: _deferred,
    i.IntentsReleased: _released,
    i.IntentAttempted: _moved,
    i.IntentDelivered: _moved,
    i.IntentDied: _moved,
    i.IntentCancelled: _moved,
    i.IntentDropped: _moved,
    i.IntentRevived: _revived,
}


def _claims(queued: Sequence[Queued]) -> tuple[list[int], list[int], list[str]]:
    claims = sorted((ids.seq_of(one.id), one.fence, one.owner) for one in queued)
    return [id for id, _, _ in claims], [fence for _, fence, _ in claims], [owner for _, _, owner in claims]


def _names(found: Iterable[tuple[Any, ...]]) -> frozenset[str]:
    return frozenset(ids.make(ids.INTENT, id) for _, id in found)


def _value(db: Db, query: bytes, given: tuple[Any, ...]) -> Any:
    row = db.execute(query, given).fetchone()
    return row[0] if row else 0


def _queued(row: tuple[Any, ...]) -> Queued:
    state, due_us, attempts, unsure, changed_us, fence, owner, started, live, result = row[:_COLUMNS]
    return queued_of(
        cast("Stored", row[_COLUMNS:]),
        state,
        result,
        changed_us=changed_us,
        due_us=due_us,
        attempts=attempts,
        unsure=unsure,
        fence=fence,
        owner=owner,
        begun=started,
        live=live,
    )
