"""Calls that are being made: a run does not end, and is not taken back, under one that still works."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

from takeback.errors import UsageError

T = TypeVar("T")

POLL_S = 0.01


class AtWork:
    """The calls of a run in all its threads and tasks. One key is at work once; none begins once this is closed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._keys: set[str] = set()
        self._closed = ""

    @contextmanager
    def on(self, key: str) -> Iterator[None]:
        """For the length of a call. Whoever comes with the same key waits, and then finds the result."""
        with self._changed:
            self._changed.wait_for(lambda: self._enter(key))
        try:
            yield
        finally:
            self._leave(key)

    @asynccontextmanager
    async def on_async(self, key: str) -> AsyncIterator[None]:
        """The same, in a loop that has to go on meanwhile."""
        while not self._enter(key):
            await asyncio.sleep(POLL_S)
        try:
            yield
        finally:
            self._leave(key)

    def _enter(self, key: str) -> bool:
        with self._changed:
            self.refuse_closed()
            if key in self._keys:
                return False
            self._keys.add(key)
            return True

    def _leave(self, key: str) -> None:
        with self._changed:
            self._keys.discard(key)
            self._changed.notify_all()

    def refuse_closed(self) -> None:
        if self._closed:
            raise UsageError(f"{self._closed}; nothing was begun", hint="begin another run")

    def close(self, why: str, wait_s: float) -> bool:
        """Let nothing more begin, and wait for what has; False if it takes too long."""
        with self._changed:
            self._closed = why
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._keys, wait_s)


async def wholly(
    function: Callable[[], T], *, apart: bool = False
) -> tuple[T, asyncio.CancelledError | None]:
    """Do it in a thread, to its end: a record is not left half made where whoever waits for it is cancelled.

    `apart` is for what may take hours, as a question does: it has a thread of its own, and fills nobody's pool.
    """
    pool = ThreadPoolExecutor(1) if apart else None
    context = contextvars.copy_context()
    task = asyncio.get_running_loop().run_in_executor(pool, lambda: context.run(function))
    if pool:
        pool.shutdown(wait=False)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    return task.result(), cancelled
