"""The system clock behind its port, and a clock that cannot be set."""

from __future__ import annotations

import time
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
