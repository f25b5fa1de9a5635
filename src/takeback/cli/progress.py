"""Progress on a terminal, after half a second, and never elsewhere."""

from __future__ import annotations

import sys
import time

from takeback import config


class Progress:
    """Tells how many files have been read so far, on one line that goes away again."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._said = 0.0
        self._shown = sys.stderr.isatty() and config.wants_colour()

    def __call__(self, files: int, size: int) -> None:
        now = time.monotonic()
        if now - self._began < 0.5 or now - self._said < 0.1 or not self._shown:
            return
        self._said = now
        sys.stderr.write(f"\r\x1b[KReading files: {files:,}, {size / 1e6:,.0f} MB ")
        sys.stderr.flush()

    def done(self) -> None:
        if self._said:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._said = 0.0
