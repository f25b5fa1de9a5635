"""The statements of the PostgreSQL journal, each a function of a connection."""

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

PAGE_ROWS = 1000
PAGE_BYTES = 4 << 20
LOWEST = -(2**63)
CHANNEL = "takeback_store"

_ROW = (
    b"SELECT seq, stream, n, coalesce(key, ''), digest, body FROM takeback_store.events WHERE workspace = %s "
)
# So many rows as fit into a page by their size, and one at the least.
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
_STREAM_AT = b"SELECT n " + _OF_STREAM + b"AND seq <= %s ORDER BY n DESC LIMIT 1"
_DIGESTS = b"SELECT seq, digest FROM takeback_store.events WHERE workspace = %s AND seq > %s ORDER BY seq"
_TOUCH = b"UPDATE takeback_store.workspaces SET count = count WHERE id = %s"
_WAIT = (
    b"UPDATE takeback_store.workspaces SET waited = greatest(waited, clock_timestamp() + %s * interval '1 second')"
    b" WHERE id = %s"
)

# The end of the journal moves only from where the writer saw it, and the events come with it or not at all; and only
# for whoever sits there, whose seat is so renewed. Seat 0 is for what may be written from anywhere. A notification
# holds up all commits of a server until it is out, so there is one only where somebody waits for it.
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
# Putting one row into lists takes the driver longer than all the rest.
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
    """The number of a workspace; one that is new here gets one."""
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
    """Write rows behind an end that was seen; False, and nothing is written, where it is elsewhere by now."""
    is_one = len(rows) == 1
    columns = (*rows[0], parts[0]) if is_one else (*map(list, zip(*rows, strict=True)), list(parts))
    values = _values(workspace, seen, rows, columns, seat)
    row = db.execute(_WRITES[is_one, durable], values, prepare=True).fetchone()
    return row is not None and row[0] == len(rows)


def take_in(db: Db, workspace: int, seen: Head, rows: Sequence[Stored], parts: Sequence[int]) -> None:
    """Write rows of another journal behind the end of one that is shut, for whoever holds it."""
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
    """Begin a transaction in which nobody else moves the end of this journal; gives that end, and who sits there."""
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
    """A durable commit: what was committed before it is durable, too."""
    db.execute(_TOUCH, (workspace,))


def awaited(db: Db, workspace: int, timeout_s: float) -> None:
    """Have whoever appends in the next time tell it."""
    db.execute(_WAIT, (timeout_s, workspace))


def head(db: Db, workspace: int, stream: str | None = None) -> Head:
    query, values = (_HEAD, (workspace,)) if stream is None else (_STREAM_HEAD, (workspace, stream))
    row = db.execute(query, cast("tuple[Any, ...]", values)).fetchone()
    return Head(*row) if row else NOTHING


def last(db: Db, workspace: int) -> int:
    """The highest number among the events themselves, whatever the row of the workspace says."""
    row = db.execute(_LAST, (workspace,)).fetchone()
    return int(row[0] or 0) if row else 0


def ends(db: Db, workspace: int, streams: Iterable[str]) -> dict[str, Head]:
    """The ends of these streams."""
    wanted = list(streams)
    found = dict.fromkeys(wanted, NOTHING)
    for stream, n, digest in db.execute(_STREAM_HEADS, (wanted, workspace)):
        found[stream] = Head(n, digest)
    return found


def get(db: Db, workspace: int, seq: int) -> Stored | None:
    if not LOWEST <= seq <= HIGHEST:
        return None
    return cast("Stored | None", db.execute(_ONE, (workspace, seq)).fetchone())


def find_all(db: Db, workspace: int, keys: Iterable[str]) -> dict[str, tuple[Record, ...]]:
    """What was appended under each of these keys."""
    found: dict[str, tuple[Record, ...]] = {}
    for row in db.execute(_BY_KEYS, (workspace, list(keys))):
        record = record_of(cast("Stored", row))
        found[record.envelope.key] = (*found.get(record.envelope.key, ()), record)
    return found


def digests(db: Db, workspace: int, *, after: int) -> list[tuple[int, str]]:
    return cast("list[tuple[int, str]]", db.execute(_DIGESTS, (workspace, after)).fetchall())


class PostgresEventTable(EventTable["Db"]):
    """The events of one workspace."""

    def __init__(self, workspace: Callable[[], int]) -> None:
        """`workspace` returns its number, which is known when there is a connection."""
        self._workspace = workspace

    def head(self, db: Db, stream: str | None = None) -> Head:
        return head(db, self._workspace(), stream)

    def count_at(self, db: Db, stream: str, seq: int) -> int:
        row = db.execute(_STREAM_AT, (self._workspace(), stream, seq)).fetchone()
        return int(row[0]) if row else 0

    def get(self, db: Db, seq: int) -> Stored | None:
        return get(db, self._workspace(), seq)

    def find(self, db: Db, key: str) -> tuple[Record, ...]:
        rows = db.execute(_BY_KEY, (self._workspace(), key)) if key and "\0" not in key else ()
        return tuple(record_of(cast("Stored", row)) for row in rows)

    def page(self, db: Db, start: int, end: int, stream: str | None = None) -> list[Stored]:
        query, more = (_BY_SEQ, ()) if stream is None else (_BY_STREAM, (stream,))
        values = (self._workspace(), start, end, *more, PAGE_ROWS, PAGE_BYTES)
        return cast("list[Stored]", db.execute(query, values).fetchall())
