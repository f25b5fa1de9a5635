"""The system clock behind its port, a clock that cannot be set, and the time zone of this machine."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple

from takeback.system.processes import boot_id


class SystemClock:
    """The clock of this machine."""

    def now_us(self) -> int:
        return time.time_ns() // 1000


class BootTime(NamedTuple):
    """A moment by a clock that cannot be set: microseconds since the machine was booted, and the id of that boot."""

    boot: str
    us: int


def boot_clock() -> BootTime:
    return BootTime(boot_id(), time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000)


class LocalZone(tzinfo):
    """The time zone of this machine, with its rules for summer and winter."""

    def utcoffset(self, at: datetime | None) -> timedelta | None:
        return at.replace(tzinfo=None).astimezone().utcoffset() if at else None

    def dst(self, _at: datetime | None) -> None:
        return None

    def tzname(self, at: datetime | None) -> str | None:
        return at.replace(tzinfo=None).astimezone().tzname() if at else None

    def fromutc(self, at: datetime) -> datetime:
        return at.replace(tzinfo=UTC).astimezone().replace(tzinfo=self)
