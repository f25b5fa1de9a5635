"""What the engine needs from the outside, in sentences that every implementation keeps.

The contract of each port is a public test suite in `takeback.testing`; the in-memory implementation passes the
same suite as the durable ones.
"""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    def now_us(self) -> int:
        """Microseconds since 1970, UTC."""
