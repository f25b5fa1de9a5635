"""The lease statements in SQLite. Leases expire by the machine's clock since boot."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import cast

import apsw
import msgspec

from takeback.core.leases import Holder, Lease, Wait
from takeback.storage.journal.leases import LeaseTable
from takeback.system.clock import BootTime, boot_clock

_LEASES = "SELECT fence, name, holder, since_us, ttl_us, boot, until_us FROM leases ORDER BY fence"
_WAITS = "SELECT token, name, holder, family, boot, until_us FROM lease_waits"
_TAKE = "INSERT INTO leases (name, holder, since_us, ttl_us, boot, until_us) VALUES (?, ?, ?, ?, ?, ?)"
_RENEW = "UPDATE leases SET boot = ?, until_us = ? + ttl_us WHERE fence = ?"
_RELEASE = "DELETE FROM leases WHERE fence = ?"
_HELD = "SELECT 1 FROM leases WHERE fence = ?"
_WAIT = "INSERT OR REPLACE INTO lease_waits VALUES (?, ?, ?, ?, ?, ?)"
_FORGET = "DELETE FROM lease_waits WHERE token = ? OR boot <> ? OR until_us <= ?"


class SqliteLeaseTable(LeaseTable[apsw.Connection]):
    """The leases in a journal's database, and the waits for them."""

    def __init__(self, clock: Callable[[], BootTime] = boot_clock) -> None:
        self._clock = clock

    def leases(self, db: apsw.Connection) -> list[Lease]:
        now = self._clock()
        return [
            Lease(fence, name, _holder(holder), since_us, ttl_us, _left(boot, until_us, now))
            for fence, name, holder, since_us, ttl_us, boot, until_us in db.execute(_LEASES)
        ]

    def waits(self, db: apsw.Connection) -> list[Wait]:
        now = self._clock()
        return [
            Wait(token, name, _holder(holder), _family(family), _left(boot, until_us, now))
            for token, name, holder, family, boot, until_us in db.execute(_WAITS)
        ]

    def take(self, db: apsw.Connection, wanted: Wait, since_us: int, ttl_us: int) -> int:
        now, holder = self._clock(), msgspec.json.encode(wanted.holder)
        db.execute(_TAKE, (wanted.name, holder, since_us, ttl_us, now.boot, now.us + ttl_us))
        return db.last_insert_rowid()

    def renew(self, db: apsw.Connection, fences: Collection[int]) -> list[int]:
        now, found = self._clock(), self.held(db, fences)
        db.executemany(_RENEW, [(now.boot, now.us, fence) for fence in found])
        return found

    def release(self, db: apsw.Connection, fences: Collection[int]) -> list[int]:
        found = self.held(db, fences)
        db.executemany(_RELEASE, [(fence,) for fence in found])
        return found

    def held(self, db: apsw.Connection, fences: Collection[int]) -> list[int]:
        return [fence for fence in fences if db.execute(_HELD, (fence,)).get]

    def wait(self, db: apsw.Connection, wanted: Wait) -> None:
        now, holder = self._clock(), msgspec.json.encode(wanted.holder)
        family = msgspec.json.encode(sorted(wanted.family))
        db.execute(_WAIT, (wanted.token, wanted.name, holder, family, now.boot, now.us + wanted.left_us))

    def forget(self, db: apsw.Connection, token: str) -> None:
        db.execute(_FORGET, (token, *self._clock()))


def _holder(stored: object) -> Holder:
    return msgspec.json.decode(cast("bytes", stored), type=Holder)


def _family(stored: object) -> frozenset[str]:
    return msgspec.json.decode(cast("bytes", stored), type=frozenset[str])


def _left(boot: str, until_us: int, now: BootTime) -> int:
    return until_us - now.us if boot == now.boot else 0
