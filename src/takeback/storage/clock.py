"""The real time, behind the port; and a clock that nobody sets."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import NamedTuple


class SystemClock:
    """The clock of this machine."""

    def now_us(self) -> int:
        return time.time_ns() // 1000


class Moment(NamedTuple):
    """A moment by a clock that nobody sets: microseconds since the machine was booted, and which boot that was."""

    boot: str
    us: int


def boot_clock() -> Moment:
    return Moment(_boot(), time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000)


@functools.cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
