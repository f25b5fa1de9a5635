"""The port of the clock."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    def now_us(self) -> int:
        """Return microseconds since 1970, UTC."""
