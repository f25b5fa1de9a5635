"""Where appends wait in line, so that many go to their store together.

Whoever finds nobody at work leads: it commits all that stand in line, itself among them, and wakes the first of those
that came meanwhile. A single writer so commits by itself, without waiting for another thread.

An interrupt may come between any two steps here. So nothing rests on a step that has to follow: the lead is a lock
that its block lets go of, being woken is a hint, and who is not done when nobody woke it looks for itself.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress

from takeback.core.record import Record
from takeback.storage.group import Waiting

LOOK_S = 0.5
"""After so long without a word, whoever waits looks whether anybody leads."""


class Line:
    """The appends of one process that are not committed yet."""

    def __init__(self) -> None:
        self._lead = threading.Lock()
        self._leader = 0
        self._waiting: deque[Waiting] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_led_here(self) -> bool:
        """Whether this very thread leads: then this is asked by a signal handler."""
        return self._leader == threading.get_ident() and self._lead.locked()

    def append(self, waiting: Waiting, lead: Callable[[], None]) -> tuple[Record, ...]:
        """Stand in line until it is committed: by another thread, or by `lead`, which commits the first in line."""
        try:
            self._waiting.append(waiting)
            while not waiting.is_done:
                if not self._lead.locked() or not waiting.wait(LOOK_S):
                    self._lead_on(waiting, lead)
        finally:
            self._leave(waiting)
        return waiting.answer()

    def _lead_on(self, waiting: Waiting, lead: Callable[[], None]) -> None:
        me = threading.get_ident()
        with self._lead:
            self._leader = me
            if waiting.is_done:
                return
            if waiting not in self._waiting:
                self._waiting.appendleft(waiting)  # whoever had taken it was interrupted
            lead()

    def take(self, limit: int) -> list[Waiting]:
        """The first in line, for whoever leads."""
        taken: list[Waiting] = []
        with suppress(IndexError):
            while len(taken) < limit:
                taken.append(self._waiting.popleft())
        return taken

    def give_back(self, group: Iterable[Waiting]) -> None:
        """Let those that are not done be the first again."""
        self._waiting.extendleft(reversed([waiting for waiting in group if not waiting.is_done]))

    def _leave(self, waiting: Waiting) -> None:
        """Done, or given up. Whoever is first now leads, unless a new one is quicker."""
        if not waiting.is_done:
            with suppress(ValueError):
                self._waiting.remove(waiting)
        if not self._lead.locked():
            with suppress(IndexError):
                self._waiting[0].wake()
