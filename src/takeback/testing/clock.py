"""A clock that moves only when a test advances it."""

from __future__ import annotations


class ManualClock:
    """A clock with a fixed time until it is advanced; at first the morning of 2026-01-01, UTC."""

    def __init__(self, now_us: int = 1_767_254_400_000_000) -> None:
        self._now_us = now_us

    def now_us(self) -> int:
        return self._now_us

    def advance(self, seconds: float) -> None:
        """Let this much time pass; with a negative number the clock is set back, as a real one can be."""
        self._now_us += round(seconds * 1_000_000)
