"""How many attempts a worker may begin before it has a thread for them.

An attempt that has begun cannot be cancelled before it has ended, and counts as one without an answer if the worker
dies. So only as much begins ahead as the threads will have delivered in a moment: nothing where a delivery takes its
time. What was tried before never does: it may be what kills its worker, and has to be alone with that.
"""

from __future__ import annotations

from takeback.core.intents import Queued

AHEAD_S = 0.02
AHEAD_MAX = 100
_WEIGHT = 1 / 8


class Pace:
    """Follows how long deliveries take."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._mean_s = 0.0
        self._ahead = 0

    def took(self, seconds: float) -> None:
        """So long took one delivery."""
        self._mean_s += (seconds - self._mean_s) * (_WEIGHT if self._mean_s else 1)
        self._ahead = min(AHEAD_MAX, int(self._concurrency * AHEAD_S / max(self._mean_s, 1e-6)))

    def stalled(self) -> None:
        """What began ahead found no thread: as long as nothing has ended, nothing does so."""
        self._mean_s, self._ahead = AHEAD_S * self._concurrency * 2, 0

    @property
    def limit(self) -> int:
        """How many may have begun at a time."""
        return self._concurrency + self._ahead

    @property
    def low(self) -> int:
        """With so few left that no thread has taken, it is time to begin more."""
        return self._ahead // 2

    def allows(self, queued: Queued, begun: int) -> bool:
        """Whether this one may begin where so many have."""
        return begun < self._concurrency or (not queued.attempts and begun < self.limit)
