"""Progress on a terminal, after half a second, and never elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from takeback.settings import environment

WAIT_S = 0.5
PAUSE_S = 0.1

T = TypeVar("T")


class TerminalProgress:
    """The progress of long work on one line, which is cleared at the end: `takeback.ports.Progress`."""

    def __init__(self) -> None:
        self.wanted = sys.stderr.isatty() and environment.wants_colour()
        self._began = self._ended = -WAIT_S
        self._said = 0.0

    def __call__(self, what: str, items: Iterable[T], total: int, /) -> Iterable[T]:
        return self._shown(what, items, total) if self.wanted else items

    def _shown(self, what: str, items: Iterable[T], total: int) -> Iterator[T]:
        # Several parts of work in a row are one wait for the human.
        if (now := time.monotonic()) - self._ended > WAIT_S:
            self._began = now
        try:
            for done, item in enumerate(items, 1):
                yield item
                now = time.monotonic()
                if now - self._began > WAIT_S and now - self._said > PAUSE_S:
                    self._said = now
                    sys.stderr.write(f"\r\x1b[K{what}: {done:,}{f' of {total:,}' if total else ''} ")
                    sys.stderr.flush()
        finally:
            self._ended = time.monotonic()
            self.done()

    def done(self) -> None:
        """Leave nothing on the terminal."""
        if self._said:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._said = 0.0
