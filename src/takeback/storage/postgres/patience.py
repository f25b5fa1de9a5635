"""How long to wait for a server that went away."""

from __future__ import annotations

import time


class Patience:
    """Sleeps a little longer each time, until the time is up."""

    FIRST_S, LONGEST_S = 0.02, 0.5

    def __init__(self, limit_s: float, since: float | None = None) -> None:
        """`since` is when it went away, by `time.monotonic`, where that was before now."""
        self._until = (time.monotonic() if since is None else since) + limit_s
        self._next_s = self.FIRST_S

    def again(self) -> bool:
        """Wait a while; False where there is no more time."""
        if time.monotonic() >= self._until:
            return False
        time.sleep(self._next_s)
        self._next_s = min(self.LONGEST_S, self._next_s * 2)
        return True
