"""The port of the clock: what time it is."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    def now_us(self) -> int:
        """Microseconds since 1970, UTC."""
