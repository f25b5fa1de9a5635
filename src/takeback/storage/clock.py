"""The real time, behind the port."""

from __future__ import annotations

import time


class SystemClock:
    """The clock of this machine."""

    def now_us(self) -> int:
        return time.time_ns() // 1000
