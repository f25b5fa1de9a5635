"""The statements of the PostgreSQL journal, as functions of a connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from takeback.core.record import Record
from takeback.ports.journal import Head
from takeback.ports.relocation import Stored
from takeback.storage.journal.batch import NOTHING, record_of
from takeback.storage.journal.relocation import moved
from takeback.storage.journal.stored_journal import HIGHEST, EventTable

if TYPE_CHECKING:
    import psycopg

    Db = psycopg.Connection[tuple[Any, ...]]

HEAD_BYTES = 64
"""So much of a packed body says what it is stored against."""
PAGE_ROWS = 1000
PAGE_BYTES = 4 << 20
LOWEST = -(2**63)
CHANNEL = "takeback_store"

_ROW = (
    b"SELECT seq, stream, n, coalesce(key, ''), digest, body FROM takeback_store.events WHERE workspace = %s "
)
# As many rows as fit into a page by size, but at least one.
_PAGE = (
    b"SELECT seq, stream, n, key, digest, body FROM ("
    b" SELECT seq, stream, n, coalesce(key, '') AS key, digest, body,"
    b"  sum(length(body)) OVER (ORDER BY %(by)s) - length(body) AS before"
    b" FROM (SELECT * FROM takeback_store.events WHERE workspace = %%s AND %(where)s ORDER BY %(by)s LIMIT %%s) AS p"
    b") AS page WHERE before < %%s ORDER BY %(by)s"
)
_BY_SEQ = _PAGE % {b"by": b"seq", b"where": b"seq > %s AND seq <= %s"}
_BY_STREAM = _PAGE % {b"by": b"n", b"where": b"n > %s AND n <= %s AND stream = %s"}
_BY_KEY = _ROW + b"AND key = %s ORDER BY part"
_BY_KEYS = _ROW + b"AND key = ANY(%s) ORDER BY part"
_ONE = _ROW + b"AND seq = %s"
_SOME = _ROW + b"AND seq = ANY(%s) ORDER BY seq"
_FIND = b"SELECT id FROM takeback_store.workspaces WHERE name = %s"
_MAKE = b"INSERT INTO takeback_store.workspaces (name) VALUES (%s) ON CONFLICT DO NOTHING"
_HEAD = b"SELECT count, digest FROM takeback_store.workspaces WHERE id = %s"
_LAST = b"SELECT max(seq) FROM takeback_store.events WHERE workspace = %s"
_OF_STREAM = b"FROM takeback_store.events WHERE workspace = %s AND stream = %s "
_STREAM_HEAD = b"SELECT n, digest " + _OF_STREAM + b"ORDER BY n DESC LIMIT 1"
_STREAM_HEADS = (
    b"SELECT s.stream, e.n, e.digest FROM unnest(%s::text[]) AS s(stream) CROSS JOIN LATERAL ("
    b" SELECT n, digest FROM takeback_store.events WHERE workspace = %s AND stream = s.stream"
    b" ORDER BY n DESC LIMIT 1) AS e"
)
_STREAM_AT = b"SELECT n, digest " + _OF_STREAM + b"AND seq <= %s ORDER BY n DESC LIMIT 1"
_DIGESTS = b"SELECT seq, digest FROM takeback_store.events WHERE workspace = %s AND seq > %s ORDER BY seq"
_REPLACE = (
    b"UPDATE takeback_store.events AS e SET body = u.body"
    b" FROM unnest(%(seqs)b::bigint[], %(digests)b::text[], %(bodies)b::bytea[]) AS u(seq, digest, body)"
    b" WHERE e.workspace = %(workspace)s AND e.seq = u.seq AND e.digest = u.digest"
    b" AND substring(e.body FOR 1) <> '\\x02'::bytea"
)
_PACKED_HEADS = (
    b"SELECT seq, substring(body FOR %s) FROM takeback_store.events"
    b" WHERE workspace = %s AND seq > %s AND substring(body FOR 1) = '\\x01'::bytea"
)
_TOUCH = b"UPDATE takeback_store.workspaces SET count = count WHERE id = %s"
_WAIT = (
    b"UPDATE takeback_store.workspaces SET waited = greatest(waited, clock_timestamp() + %s * interval '1 second')"
    b" WHERE id = %s"
)

# The end of the journal moves only from where the writer saw it, and the events are inserted with it or not at all;
# and only if the writer holds the seat, which this renews. Seat 0 is for writes from anywhere. A notification
# delays all commits of a server until it is sent, so one is sent only if somebody waits for it.
_WRITE = (
    b"WITH moved AS ("
    b" UPDATE takeback_store.workspaces SET count = %%(count)s, digest = %%(digest)s, seat_until = CASE"
    b" WHEN seat = %%(seat)s THEN clock_timestamp() + seat_us * interval '1 microsecond' ELSE seat_until END"
    b" WHERE id = %%(workspace)s AND count = %%(seen)s AND digest = %%(after)s AND %%(seat)s::bigint IN (0, seat)"
    b" AND shut %(shut)s ''"
    b" RETURNING id, waited > clock_timestamp() AS waited%(setting)s"
    b"), written AS ("
    b" INSERT INTO takeback_store.events (workspace, seq, stream, n, key, part, digest, body)"
    b" SELECT moved.id, u.seq, u.stream, u.n, nullif(u.key, ''), u.part, u.digest, u.body"
    b" FROM moved, %(rows)s AS u(seq, stream, n, key, part, digest, body)"
    b" RETURNING 1"
    b") SELECT count(*),"
    b" (SELECT CASE WHEN waited THEN pg_notify('takeback_store_' || id, '')::text END FROM moved) FROM written"
)
_MANY = (
    b"unnest(%(seqs)b::bigint[], %(streams)b::text[], %(ns)b::bigint[], %(keys)b::text[], %(parts)b::int[],"
    b" %(digests)b::text[], %(bodies)b::bytea[])"
)
# For a single row, building arrays costs the driver more than everything else.
_ONE_ROW = (
    b"(VALUES (%(seqs)s::bigint, %(streams)s::text, %(ns)s::bigint, %(keys)s::text, %(parts)s::int,"
    b" %(digests)s::text, %(bodies)b::bytea))"
)
_NOT_DURABLE = b", set_config('synchronous_commit', 'off', true)"
_WRITES = {
    (is_one, durable): _WRITE
    % {b"setting": b"" if durable else _NOT_DURABLE, b"rows": _ONE_ROW if is_one else _MANY, b"shut": b"="}
    for is_one in (True, False)
    for durable in (True, False)
}
_TAKE_IN = _WRITE % {b"setting": b"", b"rows": _MANY, b"shut": b"<>"}
_HOLD = b"SELECT count, digest, shut, seat FROM takeback_store.workspaces WHERE id = %s FOR UPDATE"


def workspace(db: Db, name: str) -> int:
    """Return the number of a workspace, creating its row if it is new."""
    found = db.execute(_FIND, (name,)).fetchone()
    if found is None:
        db.execute(_MAKE, (name,))
        found = db.execute(_FIND, (name,)).fetchone()
    assert found is not None
    return int(found[0])


def write(
    db: Db,
    workspace: int,
    seen: Head,
    rows: Sequence[Stored],
    parts: Sequence[int],
    *,
    durable: bool,
    seat: int = 0,
) -> bool:
    """Write rows behind the end `seen`. Return False, and write nothing, if that is no longer the end."""
    is_one = len(rows) == 1
    columns = (*rows[0], parts[0]) if is_one else (*map(list, zip(*rows, strict=True)), list(parts))
    values = _values(workspace, seen, rows, columns, seat)
    row = db.execute(_WRITES[is_one, durable], values, prepare=True).fetchone()
    return row is not None and row[0] == len(rows)


def take_in(db: Db, workspace: int, seen: Head, rows: Sequence[Stored], parts: Sequence[int]) -> None:
    """Write rows of another journal behind the end of this shut one, whose row the caller has locked."""
    columns = (*map(list, zip(*rows, strict=True)), list(parts))
    db.execute(_TAKE_IN, _values(workspace, seen, rows, columns))


def _values(
    workspace: int, seen: Head, rows: Sequence[Stored], columns: Sequence[Any], seat: int = 0
) -> dict[str, Any]:
    names = ("seqs", "streams", "ns", "keys", "digests", "bodies", "parts")
    values: dict[str, Any] = dict(zip(names, columns, strict=True))
    values["workspace"], values["seat"] = workspace, seat
    values["count"], values["digest"] = rows[-1][0], rows[-1][4]
    values["seen"], values["after"] = seen.count, seen.digest
    return values


def lock(db: Db, workspace: int, *, also_shut: bool = False) -> tuple[Head, int]:
    """Begin a transaction that locks the end of this journal. Return that end, and the fence of the seat."""
    db.execute(b"BEGIN")
    row = db.execute(_HOLD, (workspace,)).fetchone()
    if row and row[2] and not also_shut:
        raise moved(row[2])
    return (Head(row[0], row[1]), row[3]) if row else (NOTHING, 0)


def commit(db: Db) -> None:
    db.execute(b"COMMIT")


def roll_back(db: Db) -> None:
    if not db.closed and db.info.transaction_status:
        db.execute(b"ROLLBACK")


def touch(db: Db, workspace: int) -> None:
    """Commit durably, which makes everything committed before durable too."""
    db.execute(_TOUCH, (workspace,))


def awaited(db: Db, workspace: int, timeout_s: float) -> None:
    """Ask writers to send a notification for each append until the time is up."""
    db.execute(_WAIT, (timeout_s, workspace))


def head(db: Db, workspace: int, stream: str | None = None) -> Head:
    query, values = (_HEAD, (workspace,)) if stream is None else (_STREAM_HEAD, (workspace, stream))
    row = db.execute(query, cast("tuple[Any, ...]", values)).fetchone()
    return Head(*row) if row else NOTHING


def last(db: Db, workspace: int) -> int:
    """Return the highest number among the stored events, whatever the workspace's row says."""
    row = db.execute(_LAST, (workspace,)).fetchone()
    return int(row[0] or 0) if row else 0


def ends(db: Db, workspace: int, streams: Iterable[str]) -> dict[str, Head]:
    """Return the ends of these streams."""
    wanted = list(streams)
    found = dict.fromkeys(wanted, NOTHING)
    for stream, n, digest in db.execute(_STREAM_HEADS, (wanted, workspace)):
        found[stream] = Head(n, digest)
    return found


def get(db: Db, workspace: int, seq: int) -> Stored | None:
    if not LOWEST <= seq <= HIGHEST:
        return None
    return cast("Stored | None", db.execute(_ONE, (workspace, seq)).fetchone())


def digests(db: Db, workspace: int, *, after: int) -> list[tuple[int, str]]:
    return cast("list[tuple[int, str]]", db.execute(_DIGESTS, (workspace, after)).fetchall())


class PostgresEventTable(EventTable["Db"]):
    """The events of one workspace."""

    def __init__(self, workspace: Callable[[], int]) -> None:
        """`workspace` returns the workspace's number, which is known once there is a connection."""
        self._workspace = workspace

    def head(self, db: Db, stream: str | None = None) -> Head:
        return head(db, self._workspace(), stream)

    def head_at(self, db: Db, stream: str, seq: int) -> Head:
        row = db.execute(_STREAM_AT, (self._workspace(), stream, seq)).fetchone()
        return Head(*row) if row else NOTHING

    def row(self, db: Db, seq: int) -> Stored | None:
        return get(db, self._workspace(), seq)

    def rows(self, db: Db, seqs: Sequence[int]) -> list[Stored]:
        return cast("list[Stored]", db.execute(_SOME, (self._workspace(), list(seqs))).fetchall())

    def keyed(self, db: Db, key: str) -> list[Stored]:
        rows = db.execute(_BY_KEY, (self._workspace(), key)).fetchall() if key and "\0" not in key else []
        return cast("list[Stored]", rows)

    def find_all(self, db: Db, keys: Iterable[str]) -> dict[str, tuple[Record, ...]]:
        """What was appended under each of these keys."""
        found: dict[str, tuple[Record, ...]] = {}
        for row in db.execute(_BY_KEYS, (self._workspace(), list(keys))).fetchall():
            record = record_of(self.whole(db, cast("Stored", row)))
            found[record.envelope.key] = (*found.get(record.envelope.key, ()), record)
        return found

    def replace(self, db: Db, rows: Sequence[Stored]) -> None:
        seqs, digests, bodies = ([row[column] for row in rows] for column in (0, 4, 5))
        values = {"workspace": self._workspace(), "seqs": seqs, "digests": digests, "bodies": bodies}
        db.execute(_REPLACE, values)

    def packed_heads(self, db: Db, after: int) -> list[tuple[int, bytes]]:
        rows = db.execute(_PACKED_HEADS, (HEAD_BYTES, self._workspace(), after)).fetchall()
        return cast("list[tuple[int, bytes]]", rows)

    def page(self, db: Db, start: int, end: int, stream: str | None = None) -> list[Stored]:
        query, more = (_BY_SEQ, ()) if stream is None else (_BY_STREAM, (stream,))
        values = (self._workspace(), start, end, *more, PAGE_ROWS, PAGE_BYTES)
        return cast("list[Stored]", db.execute(query, values).fetchall())
