"""Where appends wait in line, so that many go to their store together.

Whoever finds nobody at work leads: it commits all that stand in line, itself among them, and hands the lead to the
first of those that came meanwhile. A single writer so commits by itself, without waiting for another thread.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable

from takeback.core.record import Record
from takeback.errors import BackendError
from takeback.storage.group import Waiting


class Line:
    """The appends of one process that are not committed yet."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[Waiting] = deque()
        self._threads: set[int] = set()
        self._is_led = False

    def __len__(self) -> int:
        return len(self._waiting)

    def append(self, waiting: Waiting, lead: Callable[[], None]) -> tuple[Record, ...]:
        """Stand in line until it is committed: by another thread, or by `lead`, which commits the first in line."""
        self._refuse_nesting()
        leads = False
        try:
            leads = self._join(waiting)
            while leads and not waiting.is_done:
                lead()
        finally:
            self._leave(waiting, leads=leads)
        return waiting.answer()

    def _refuse_nesting(self) -> None:
        if threading.get_ident() in self._threads:
            raise BackendError(
                "this thread is in the middle of an append. Nothing was recorded",
                hint="a signal handler should not write to the journal; let it set a flag",
                retryable=True,
            )

    def _join(self, waiting: Waiting) -> bool:
        """Stand in line, until it is done or this thread is to lead; gives whether it is to lead."""
        self._threads.add(threading.get_ident())
        with self._guard:
            self._waiting.append(waiting)
            if not self._is_led:
                self._is_led = True
                return True
        waiting.wait()
        return not waiting.is_done

    def take(self, limit: int) -> list[Waiting]:
        """The first in line, for whoever leads."""
        with self._guard:
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), limit))]

    def give_back(self, group: Iterable[Waiting]) -> None:
        """Let those that are not done be the first again."""
        with self._guard:
            self._waiting.extendleft(reversed([waiting for waiting in group if not waiting.is_done]))

    def _leave(self, waiting: Waiting, *, leads: bool) -> None:
        """Done, or given up; whoever leads hands the lead on."""
        self._threads.discard(threading.get_ident())
        if waiting.is_done and not leads:
            return
        with self._guard:
            if not waiting.is_done and waiting in self._waiting:
                self._waiting.remove(waiting)
            # Who was woken to lead and gave up in the same moment hands it on, too.
            if leads or (waiting.is_woken and not waiting.is_done):
                self._is_led = bool(self._waiting)
                if self._waiting:
                    self._waiting[0].wake()
