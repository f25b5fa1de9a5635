"""Calls that are being made: a run does not end, and is not taken back, under one that still works."""

from __future__ import annotations

import contextvars
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Generic, TypeVar

from takeback.errors import RunBusy, UsageError

if TYPE_CHECKING:
    # It takes long to load, and whoever needs it has loaded it.
    import asyncio

T = TypeVar("T")

POLL_S = 0.01

_inside: ContextVar[frozenset[tuple[int, str]]] = ContextVar("takeback-inside", default=frozenset())
"""The calls that this code is inside of: whose they are, and their keys."""


class AtWork:
    """The calls of a run in all its threads and tasks. One key is at work once; none begins once this is closed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._keys: set[str] = set()
        self._closed = ""
        self._alone = 0
        """The thread that takes something back, so that no other begins a call."""
        self._pid = os.getpid()

    def open(self) -> None:
        """From here on this process, and no fork of it, makes the calls."""
        self._pid = os.getpid()

    def on(self, key: str) -> _On:
        """For the length of a call. Whoever comes with the same key waits, and then finds the result."""
        self.refuse_forked()
        return _On(self, key)

    @asynccontextmanager
    async def on_async(self, key: str) -> AsyncIterator[None]:
        """The same, in a loop that has to go on meanwhile."""
        import asyncio

        self.refuse_forked()
        while not self._enter(key):
            await asyncio.sleep(POLL_S)
        with _Noted(self, key):
            yield

    @contextmanager
    def alone(self) -> Iterator[None]:
        """For the length of a rollback: refused while others are at work, who might go on with what is undone."""
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
                        f"this is inside of the call with the key {key!r}, which would wait for itself; "
                        "nothing was begun",
                        hint="give each call a key of its own",
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
        """Two processes that both believe to be the run would each make its calls."""
        if self.is_forked():
            raise UsageError(
                "this process is a fork of the one that conducts the run; nothing was done",
                hint="make the calls in the process that began the run, or begin another run here",
            )

    def refuse_closed(self) -> None:
        self.refuse_forked()
        if self._closed:
            raise UsageError(f"{self._closed}; nothing was begun", hint="begin another run")

    def close(self, why: str, wait_s: float) -> bool:
        """Let nothing more begin, and wait for what has; False if it takes too long."""
        with self._changed:
            self._closed = why
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._keys, wait_s)


class _Noted:
    """Lets this context know that it is inside of a call that has begun, until that is over."""

    def __init__(self, work: AtWork, key: str) -> None:
        self._work = work
        self._key = key

    def __enter__(self) -> None:
        self._token = _inside.set(_inside.get() | {(id(self._work), self._key)})

    def __exit__(self, *error: object) -> None:
        _inside.reset(self._token)
        self._work._leave(self._key)


class _On(_Noted):
    """Waits for its turn first."""

    def __enter__(self) -> None:
        work = self._work
        with work._changed:
            while not work._enter(self._key):
                work._changed.wait()
        super().__enter__()


class AlsoAsync(ABC, Generic[T]):
    """What is done with `with` can be done with `async with` too: in a thread, and to its end."""

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


async def wholly(
    function: Callable[[], T], *, apart: bool = False
) -> tuple[T, asyncio.CancelledError | None]:
    """Do it in a thread, to its end: a record is not left half made where whoever waits for it is cancelled.

    `apart` is for what may take hours, as a question does: it has a thread of its own, and fills nobody's pool.
    """
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
