"""Progress on a terminal, after half a second, and never elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from takeback.settings import environment

WAIT_S = 0.5
PAUSE_S = 0.1
PAUSE_S_MIN = 0.05

T = TypeVar("T")


class TerminalProgress:
    """The progress of long work on one line, which is cleared at the end: `takeback.ports.Progress`."""

    def __init__(self) -> None:
        self.wanted = sys.stderr.isatty() and environment.wants_colour()
        self._began = self._ended = -WAIT_S
        self._said = self._told = 0.0
        self._writing = threading.Lock()

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
                    with self._writing:
                        self._say(f"{what}: {done:,}{f' of {total:,}' if total else ''} ")
        finally:
            self._ended = time.monotonic()
            self.done()

    @contextmanager
    def during(self, what: str) -> Iterator[None]:
        """Say that work goes on, and for how long, while nothing else tells how far it is."""
        if not self.wanted:
            yield
            return
        over = threading.Event()
        ticking = threading.Thread(target=self._tick, args=(what, over), daemon=True)
        ticking.start()
        try:
            yield
        finally:
            over.set()
            ticking.join()
            self.done()

    def _tick(self, what: str, over: threading.Event) -> None:
        began = time.monotonic()
        while not over.wait(max(WAIT_S, PAUSE_S_MIN)):
            with self._writing:
                if (now := time.monotonic()) - self._told > WAIT_S:
                    self._say(f"{what}: {now - began:.0f} s ")

    def done(self) -> None:
        """Leave nothing on the terminal."""
        with self._writing:
            if self._said:
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()
                self._said = 0.0

    def _say(self, text: str) -> None:
        self._said = self._told = time.monotonic()
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
