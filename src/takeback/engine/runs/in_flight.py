"""Calls in flight: a run neither ends nor is taken back while one is being made."""

from __future__ import annotations

import contextvars
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from takeback.errors import RunBusy, UsageError

if TYPE_CHECKING:
    # Slow to import, and callers that need it have already imported it.
    import asyncio

T = TypeVar("T")

POLL_S = 0.01

_inside: ContextVar[frozenset[tuple[int, str]]] = ContextVar("takeback-inside", default=frozenset())
"""The calls that this code is inside of: their run and their keys."""


class AtWork:
    """The calls in flight of a run, in all threads and tasks: one per key, and none begins after `close`."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._keys: set[str] = set()
        self._closed = ""
        self._alone = 0
        """The thread that takes something back; meanwhile no other thread begins a call."""
        self._pid = os.getpid()

    def open(self) -> None:
        """Make this process, and no fork of it, the one that makes the calls."""
        self._pid = os.getpid()

    def on(self, key: str) -> _On:
        """Return a block for one call. Another caller with the same key waits, and then finds the result."""
        self.refuse_forked()
        return _On(self, key)

    @asynccontextmanager
    async def on_async(self, key: str) -> AsyncIterator[None]:
        """Enter the block for one call without blocking the event loop."""
        self.refuse_forked()
        while not self._enter(key):
            await pause(POLL_S)
        with _Noted(self, key):
            yield

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Enter a block for a rollback. Raise RunBusy while other calls, which might use what is undone, are made."""
        with self._changed:
            others = [key for key in self._keys if (id(self), key) not in _inside.get()]
            if others or self._alone:
                raise RunBusy(
                    "this run is at work in other threads or tasks too, so nothing was taken back",
                    hint="join the threads, or await the tasks, and try again",
                )
            self._alone = threading.get_ident()
        try:
            yield
        finally:
            with self._changed:
                self._alone = 0
                self._changed.notify_all()

    def _enter(self, key: str) -> bool:
        with self._changed:
            self.refuse_closed()
            if key in self._keys:
                if (id(self), key) in _inside.get():
                    raise UsageError(
                        f"this code runs inside the call with the key {key!r}, which would wait for itself; "
                        "nothing was begun",
                        hint="use a separate key for each call",
                    )
                return False
            if self._alone not in (0, threading.get_ident()):
                return False
            self._keys.add(key)
            return True

    def _leave(self, key: str) -> None:
        with self._changed:
            self._keys.discard(key)
            self._changed.notify_all()

    def is_forked(self) -> bool:
        return self._pid != os.getpid()

    def refuse_forked(self) -> None:
        """Raise UsageError in a fork: otherwise two processes would each make the calls of the run."""
        if self.is_forked():
            raise UsageError(
                "this process is a fork of the one that runs this run; nothing was done",
                hint="make the calls in the process that began the run, or begin another run here",
            )

    def refuse_closed(self) -> None:
        self.refuse_forked()
        if self._closed:
            raise UsageError(f"{self._closed}; nothing was begun", hint="begin another run")

    def close(self, why: str, wait_s: float) -> bool:
        """Let no more calls begin, and wait for those in flight. Return False if that takes too long."""
        with self._changed:
            self._closed = why
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._keys, wait_s)


class _Noted:
    """A block that marks this context as inside a call."""

    def __init__(self, work: AtWork, key: str) -> None:
        self._work = work
        self._key = key

    def __enter__(self) -> None:
        self._token = _inside.set(_inside.get() | {(id(self._work), self._key)})

    def __exit__(self, *error: object) -> None:
        _inside.reset(self._token)
        self._work._leave(self._key)


class _On(_Noted):
    """A block for one call that first waits until its key is free."""

    def __enter__(self) -> None:
        work = self._work
        with work._changed:
            while not work._enter(self._key):
                work._changed.wait()
        super().__enter__()


class AlsoAsync(ABC, Generic[T]):
    """A base class for blocks that work with `async with` too: in a thread, and always to the end."""

    @abstractmethod
    def __enter__(self) -> T: ...

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def __aenter__(self) -> T:
        entered, cancelled = await wholly(self.__enter__)
        if cancelled:
            await wholly(lambda: self.__exit__(type(cancelled), cancelled, None))
            raise cancelled
        return entered

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _, cancelled = await wholly(lambda: self.__exit__(kind, error, trace))
        if cancelled:
            raise cancelled


async def pause(seconds: float) -> None:
    """Sleep, in asyncio or in trio."""
    if trio := _running_trio():
        await trio.sleep(seconds)
    else:
        import asyncio

        await asyncio.sleep(seconds)


def _running_trio() -> Any:
    """Return trio if it runs this code. A program that runs trio has imported it, so nothing is imported here."""
    trio = sys.modules.get("trio")
    if trio is not None:
        with suppress(RuntimeError):
            trio.lowlevel.current_task()
            return trio
    return None


async def uncancelled(function: Callable[[], T]) -> T:
    """Run a function in a thread to its end, and only then let a cancellation take effect."""
    result, cancelled = await wholly(function)
    if cancelled:
        raise cancelled
    return result


async def wholly(
    function: Callable[[], T], *, apart: bool = False
) -> tuple[T, asyncio.CancelledError | None]:
    """Run a function in a thread to its end, so that cancelling the caller leaves no incomplete record.

    `apart` is for what may take hours, such as waiting for approval: it gets a thread of its own.
    Under trio the cancellation takes effect at the next checkpoint of the caller, and is not returned.
    """
    if trio := _running_trio():
        with trio.CancelScope(shield=True):
            done: T = await trio.to_thread.run_sync(function)
        return done, None
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

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
