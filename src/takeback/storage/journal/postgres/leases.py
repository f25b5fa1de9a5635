"""Leases in the journal's own database: so an append can hold, in one transaction, that a lease is still held.

Whoever changes them holds the end of the journal, as whoever appends does. They run out by the clock of the server.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from takeback.core.events import Event
from takeback.core.leases import Blocked, Holder, Lease, Wait, decide, stale
from takeback.storage.journal.postgres.outbox import Decide
from takeback.storage.journal.postgres.session import PostgresSession
from takeback.system import crash_points

if TYPE_CHECKING:
    import psycopg

    Db = psycopg.Connection[tuple[Any, ...]]

ACQUIRED = crash_points.crash_point("lease-acquired")
RENEWED = crash_points.crash_point("lease-renewed")
RELEASED = crash_points.crash_point("lease-released")

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


class PostgresLeases:
    """The leases beside a journal: `takeback.ports.LeaseStore`."""

    def __init__(self, session: PostgresSession, decide: Decide, now_us: Callable[[], int]) -> None:
        self._session = session
        self._decide = decide
        self._now_us = now_us

    @property
    def _id(self) -> int:
        return self._session.id

    def acquire(
        self,
        name: str,
        holder: Holder,
        ttl_s: float,
        *,
        family: Collection[str] = (),
        token: str = "",
        wait_s: float = 0.0,
    ) -> Lease | Blocked:
        wanted = Wait(token, name, holder, frozenset(family), int(wait_s * 1e6))
        # Whoever waits looks often, and keeps nobody from writing.
        leases, waits = self._session.ask(lambda db: (self.listed(db), self._waits(db)))
        known = not token or any(wait.token == token for wait in waits)
        found = decide(leases, waits, wanted)
        if isinstance(found, Blocked) and known and not found.cycle:
            return found
        answer: list[Lease | Blocked] = []

        def take(db: Db) -> list[Event]:
            # A connection was lost, but perhaps not what was done with it.
            if not (answer and isinstance(answer[0], Lease) and self._is_there(db, answer[0])):
                answer[:] = [self._acquire(db, wanted, int(ttl_s * 1e6))]
            return []

        self._decide(take)
        crash_points.reach(ACQUIRED)
        return answer[0]

    def renew(self, fences: Collection[int]) -> frozenset[int]:
        renewed = self._each(fences, _RENEW)
        crash_points.reach(RENEWED)
        return renewed

    def release(self, fences: Collection[int]) -> frozenset[int]:
        released = self._each(fences, _RELEASE)
        crash_points.reach(RELEASED)
        return released

    def forget(self, token: str) -> None:
        self._session.ask(lambda db: db.execute(_FORGET, (self._id, token)))

    def all(self) -> Sequence[Lease]:
        return self._session.ask(self.listed)

    def _acquire(self, db: Db, wanted: Wait, ttl_us: int) -> Lease | Blocked:
        leases = self.listed(db)
        found = decide(leases, self._waits(db), wanted)
        db.execute(_FORGET, (self._id, wanted.token))
        holder = msgspec.json.encode(wanted.holder)
        if isinstance(found, Blocked):
            if wanted.token and not found.cycle:
                family = msgspec.json.encode(sorted(wanted.family))
                db.execute(_WAIT, (self._id, wanted.token, wanted.name, holder, family, wanted.left_us))
            return found
        db.execute(_RELEASE, (self._id, [lease.fence for lease in (*found, *stale(leases))]))
        row = db.execute(_NEXT, (self._id,)).fetchone()
        assert row
        since_us = self._now_us()
        db.execute(_TAKE, (self._id, row[0], wanted.name, holder, since_us, ttl_us, ttl_us))
        return Lease(row[0], wanted.name, wanted.holder, since_us, ttl_us, ttl_us, ended=tuple(found))

    def _is_there(self, db: Db, lease: Lease) -> bool:
        told = [(one.fence, one.name, one.holder, one.since_us) for one in self.listed(db)]
        return (lease.fence, lease.name, lease.holder, lease.since_us) in told

    def _each(self, fences: Collection[int], statement: bytes) -> frozenset[int]:
        found: set[int] = set()

        def write(db: Db) -> list[Event]:
            # What an attempt ended whose answer was lost counts as ended by this one.
            found.update(fence for (fence,) in db.execute(statement, (self._id, list(fences))))
            return []

        self._decide(write)
        return frozenset(found)

    def listed(self, db: Db) -> list[Lease]:
        """All of them; inside of a transaction."""
        return [
            Lease(fence, name, msgspec.json.decode(holder, type=Holder), since_us, ttl_us, left_us)
            for fence, name, holder, since_us, ttl_us, left_us in db.execute(_LEASES, (self._id,))
        ]

    def _waits(self, db: Db) -> list[Wait]:
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


def held(db: Db, workspace: int, fences: Collection[int]) -> frozenset[int]:
    """Those of these leases that nobody else has taken; for whoever holds the end of the journal."""
    return frozenset(fence for (fence,) in db.execute(_HELD, (workspace, list(fences))))
