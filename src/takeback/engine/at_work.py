"""Calls that are being made: a run does not end, and is not taken back, under one that still works."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from takeback.errors import UsageError

T = TypeVar("T")


class AtWork:
    """Counts the calls of a run in all its threads and tasks, and lets no more in once it is closed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._closed = ""

    def __enter__(self) -> None:
        with self._changed:
            self.refuse_closed()
            self._count += 1

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def refuse_closed(self) -> None:
        if self._closed:
            raise UsageError(f"{self._closed}; nothing was begun", hint="begin another run")

    def close(self, why: str, wait_s: float) -> bool:
        """Let nothing more begin, and wait for what has; False if it takes too long."""
        with self._changed:
            self._closed = why
            return self._changed.wait_for(lambda: not self._count, wait_s)


async def wholly(function: Callable[[], T]) -> tuple[T, asyncio.CancelledError | None]:
    """Do it in a thread, to its end: a record is not left half made where whoever waits for it is cancelled."""
    task = asyncio.ensure_future(asyncio.to_thread(function))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    return task.result(), cancelled
