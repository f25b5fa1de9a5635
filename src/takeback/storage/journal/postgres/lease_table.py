"""The lease statements in PostgreSQL.

A transaction that changes leases locks the end of the journal, as an append does. Leases expire by the server's
clock.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import msgspec

from takeback.core.leases import Holder, Lease, Wait
from takeback.storage.journal.leases import LeaseTable
from takeback.storage.journal.postgres.session import PostgresSession

if TYPE_CHECKING:
    import psycopg

    Db = psycopg.Connection[tuple[Any, ...]]

_LEFT = b"(extract(epoch FROM until - clock_timestamp()) * 1000000)::bigint"
_AFTER = b"clock_timestamp() + %s * interval '1 microsecond'"
_LEASES = (
    b"SELECT fence, name, holder, since_us, ttl_us, "
    + _LEFT
    + b" FROM takeback_store.leases WHERE workspace = %s ORDER BY fence"
)
_WAITS = (
    b"SELECT token, name, holder, family, " + _LEFT + b" FROM takeback_store.lease_waits WHERE workspace = %s"
)
_NEXT = b"UPDATE takeback_store.workspaces SET fence = fence + 1 WHERE id = %s RETURNING fence"
_TAKE = b"INSERT INTO takeback_store.leases VALUES (%s, %s, %s, %s, %s, %s, " + _AFTER + b")"
_RENEW = (
    b"UPDATE takeback_store.leases SET until = clock_timestamp() + ttl_us * interval '1 microsecond'"
    b" WHERE workspace = %s AND fence = ANY(%s) RETURNING fence"
)
_RELEASE = b"DELETE FROM takeback_store.leases WHERE workspace = %s AND fence = ANY(%s) RETURNING fence"
_HELD = b"SELECT fence FROM takeback_store.leases WHERE workspace = %s AND fence = ANY(%s)"
_WAIT = b"INSERT INTO takeback_store.lease_waits VALUES (%s, %s, %s, %s, %s, " + _AFTER + b")"
_FORGET = (
    b"DELETE FROM takeback_store.lease_waits"
    b" WHERE workspace = %s AND (token = %s OR until <= clock_timestamp())"
)


class PostgresLeaseTable(LeaseTable["Db"]):
    """The leases of one workspace, and the waits for them."""

    def __init__(self, session: PostgresSession) -> None:
        self._session = session

    @property
    def _id(self) -> int:
        return self._session.id

    def leases(self, db: Db) -> list[Lease]:
        return [
            Lease(fence, name, msgspec.json.decode(holder, type=Holder), since_us, ttl_us, left_us)
            for fence, name, holder, since_us, ttl_us, left_us in db.execute(_LEASES, (self._id,))
        ]

    def waits(self, db: Db) -> list[Wait]:
        return [
            Wait(
                token,
                name,
                msgspec.json.decode(holder, type=Holder),
                msgspec.json.decode(family, type=frozenset[str]),
                left_us,
            )
            for token, name, holder, family, left_us in db.execute(_WAITS, (self._id,))
        ]

    def take(self, db: Db, wanted: Wait, since_us: int, ttl_us: int) -> int:
        row = db.execute(_NEXT, (self._id,)).fetchone()
        assert row
        holder = msgspec.json.encode(wanted.holder)
        db.execute(_TAKE, (self._id, row[0], wanted.name, holder, since_us, ttl_us, ttl_us))
        return int(row[0])

    def renew(self, db: Db, fences: Collection[int]) -> frozenset[int]:
        return self._each(db, _RENEW, fences)

    def release(self, db: Db, fences: Collection[int]) -> frozenset[int]:
        return self._each(db, _RELEASE, fences)

    def held(self, db: Db, fences: Collection[int]) -> frozenset[int]:
        return self._each(db, _HELD, fences)

    def wait(self, db: Db, wanted: Wait) -> None:
        holder, family = msgspec.json.encode(wanted.holder), msgspec.json.encode(sorted(wanted.family))
        db.execute(_WAIT, (self._id, wanted.token, wanted.name, holder, family, wanted.left_us))

    def forget(self, db: Db, token: str) -> None:
        db.execute(_FORGET, (self._id, token))

    def _each(self, db: Db, statement: bytes, fences: Collection[int]) -> frozenset[int]:
        return frozenset(fence for (fence,) in db.execute(statement, (self._id, list(fences))))
