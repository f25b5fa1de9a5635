"""Workspaces that stay open from one event to the next, each used by one thread at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from takeback.workspace import Workspace

OPEN_MAX = 8


class Warm:
    """One workspace, with its turn."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.workspace: Workspace | None = None
        self.used_s = 0.0

    def close(self) -> None:
        if self.workspace is not None:
            self.workspace.close()
            self.workspace = None


class Pool:
    """The open workspaces. The one that was not used for longest is closed where there are too many."""

    def __init__(self, opened: Callable[[Path], Workspace], *, open_max: int = OPEN_MAX) -> None:
        self._opened = opened
        self._open_max = open_max
        self._guard = threading.Lock()
        self._warm: dict[Path, Warm] = {}

    @contextmanager
    def workspace(self, root: Path) -> Iterator[Workspace]:
        """This workspace, for this thread alone.

        After an error it is opened anew the next time: it may have seen half of something.
        """
        warm = self._turn_of(root)
        try:
            if warm.workspace is None:
                warm.workspace = self._opened(root)
            yield warm.workspace
        except BaseException:
            warm.close()
            raise
        finally:
            warm.used_s = time.monotonic()
            warm.turn.release()
            self._close_some()

    def _turn_of(self, root: Path) -> Warm:
        while True:
            with self._guard:
                warm = self._warm.setdefault(root, Warm())
            warm.turn.acquire()
            with self._guard:
                if self._warm.get(root) is warm:
                    return warm
            # It was closed while we waited.
            warm.turn.release()

    def roots(self) -> list[Path]:
        with self._guard:
            return [root for root, warm in self._warm.items() if warm.workspace]

    def close(self) -> None:
        """Close all, each when its turn is over."""
        with self._guard:
            every = list(self._warm.values())
            self._warm.clear()
        for warm in every:
            with warm.turn:
                warm.close()

    def _close_some(self) -> None:
        with self._guard:
            least_used = sorted(self._warm.items(), key=lambda pair: pair[1].used_s)
            surplus = least_used[: max(0, len(least_used) - self._open_max)]
            for root, warm in surplus:
                if warm.turn.acquire(blocking=False):
                    try:
                        warm.close()
                        del self._warm[root]
                    finally:
                        warm.turn.release()
