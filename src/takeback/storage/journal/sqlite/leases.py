"""Leases in the journal's own database: so an append can hold, in one transaction, that a lease is still held."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import apsw
import msgspec

from takeback.core.events import Event
from takeback.core.leases import Blocked, Holder, Lease, Wait, decide, stale
from takeback.system import crash_points
from takeback.system.clock import BootTime, boot_clock

if TYPE_CHECKING:
    from takeback.storage.journal.sqlite.journal import SqliteJournal

ACQUIRED = crash_points.crash_point("lease-acquired")
RENEWED = crash_points.crash_point("lease-renewed")
RELEASED = crash_points.crash_point("lease-released")

_LEASES = "SELECT fence, name, holder, since_us, ttl_us, boot, until_us FROM leases ORDER BY fence"
_WAITS = "SELECT token, name, holder, family, boot, until_us FROM lease_waits"
_TAKE = "INSERT INTO leases (name, holder, since_us, ttl_us, boot, until_us) VALUES (?, ?, ?, ?, ?, ?)"
_RENEW = "UPDATE leases SET boot = ?, until_us = ? + ttl_us WHERE fence = ?"
_RELEASE = "DELETE FROM leases WHERE fence = ?"
_HELD = "SELECT 1 FROM leases WHERE fence = ?"
_WAIT = "INSERT OR REPLACE INTO lease_waits VALUES (?, ?, ?, ?, ?, ?)"
_FORGET = "DELETE FROM lease_waits WHERE token = ? OR boot <> ? OR until_us <= ?"


class SqliteLeases:
    """The leases beside a journal: `takeback.ports.LeaseStore`."""

    def __init__(
        self,
        journal: SqliteJournal,
        now_us: Callable[[], int],
        clock: Callable[[], BootTime] = boot_clock,
    ) -> None:
        self._journal = journal
        self._now_us = now_us
        self._clock = clock

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
        with self._journal.lock, self._journal.using() as db:
            # Whoever waits looks often, and keeps nobody from writing.
            leases, waits = self.listed(db), self._waits(db)
        known = not token or any(wait.token == token for wait in waits)
        found = decide(leases, waits, wanted)
        if isinstance(found, Blocked) and known and not found.cycle:
            return found
        answer: list[Lease | Blocked] = []

        def take(db: apsw.Connection) -> list[Event]:
            answer[:] = [self._acquire(db, wanted, int(ttl_s * 1e6))]
            return []

        # Durable: else the same number could be given again after a power cut.
        self._journal.decide(take)
        crash_points.reach(ACQUIRED)
        return answer[0]

    def renew(self, fences: Collection[int]) -> frozenset[int]:
        now = self._clock()
        renewed = self._each(fences, _RENEW, lambda fence: (now.boot, now.us, fence))
        crash_points.reach(RENEWED)
        return renewed

    def release(self, fences: Collection[int]) -> frozenset[int]:
        released = self._each(fences, _RELEASE, lambda fence: (fence,))
        crash_points.reach(RELEASED)
        return released

    def forget(self, token: str) -> None:
        def write(db: apsw.Connection) -> list[Event]:
            self._forget(db, token)
            return []

        self._journal.decide(write, durable=False)

    def all(self) -> Sequence[Lease]:
        with self._journal.lock, self._journal.using() as db:
            return self.listed(db)

    def _acquire(self, db: apsw.Connection, wanted: Wait, ttl_us: int) -> Lease | Blocked:
        now, leases = self._clock(), self.listed(db)
        found = decide(leases, self._waits(db), wanted)
        self._forget(db, wanted.token)
        if isinstance(found, Blocked):
            if wanted.token and not found.cycle:
                family = msgspec.json.encode(sorted(wanted.family))
                holder = msgspec.json.encode(wanted.holder)
                until_us = now.us + wanted.left_us
                db.execute(_WAIT, (wanted.token, wanted.name, holder, family, now.boot, until_us))
            return found
        for lease in (*found, *stale(leases)):
            db.execute(_RELEASE, (lease.fence,))
        holder, since_us = msgspec.json.encode(wanted.holder), self._now_us()
        db.execute(_TAKE, (wanted.name, holder, since_us, ttl_us, now.boot, now.us + ttl_us))
        fence = db.last_insert_rowid()
        return Lease(fence, wanted.name, wanted.holder, since_us, ttl_us, ttl_us, ended=tuple(found))

    def _forget(self, db: apsw.Connection, token: str) -> None:
        db.execute(_FORGET, (token, *self._clock()))

    def _each(
        self, fences: Collection[int], statement: str, values: Callable[[int], tuple[object, ...]]
    ) -> frozenset[int]:
        found: list[int] = []

        def write(db: apsw.Connection) -> list[Event]:
            found[:] = held(db, fences)
            for fence in found:
                db.execute(statement, values(fence))
            return []

        # What a power cut undoes here is of another boot, and so has run out.
        self._journal.decide(write, durable=False)
        return frozenset(found)

    def listed(self, db: apsw.Connection) -> list[Lease]:
        """All of them; inside of a transaction."""
        now = self._clock()
        return [
            Lease(
                fence,
                name,
                msgspec.json.decode(holder, type=Holder),
                since_us,
                ttl_us,
                _left(boot, until_us, now),
            )
            for fence, name, holder, since_us, ttl_us, boot, until_us in db.execute(_LEASES)
        ]

    def _waits(self, db: apsw.Connection) -> list[Wait]:
        now = self._clock()
        return [
            Wait(
                token,
                name,
                msgspec.json.decode(holder, type=Holder),
                msgspec.json.decode(family, type=frozenset[str]),
                _left(boot, until_us, now),
            )
            for token, name, holder, family, boot, until_us in db.execute(_WAITS)
        ]


def held(db: apsw.Connection, fences: Collection[int]) -> list[int]:
    """Those of these leases that nobody else has taken; inside of a transaction."""
    return [fence for fence in fences if db.execute(_HELD, (fence,)).get]


def _left(boot: str, until_us: int, now: BootTime) -> int:
    return until_us - now.us if boot == now.boot else 0
