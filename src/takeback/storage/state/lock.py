"""The workspace lock: one process at a time looks at the world, takes back, or cleans up.

A kernel lock, so that it ends with its holder. The file names the holder, only for the error message.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from takeback.errors import BackendError, RunBusy

WAIT_S = 10.0
_POLL_S = 0.002
_HOLDER_BYTES = 32


class WorkspaceLock:
    """Held for a mark, a rollback or a clean-up; not for the length of a run. Reentrant."""

    def __init__(
        self, path: Path, *, wait_s: float = WAIT_S, refuse: Callable[[], None] = lambda: None
    ) -> None:
        """`refuse` is called right after the lock is taken; it may raise."""
        self._path = path
        self._refuse = refuse
        self._wait_s = wait_s
        self._thread = threading.RLock()
        self._depth = 0
        self._fd = -1

    @contextmanager
    def held(self) -> Iterator[None]:
        with self._thread:
            self._enter(self._wait_s)
            try:
                if self._depth == 1:
                    self._refuse()
                yield
            finally:
                self._leave()

    @contextmanager
    def tried(self) -> Iterator[bool]:
        """Yield True with the lock held, or False at once if another holder has it."""
        if not self._thread.acquire(blocking=False):
            yield False
            return
        try:
            try:
                self._enter(0)
            except RunBusy:
                yield False
                return
            try:
                yield True
            finally:
                self._leave()
        finally:
            self._thread.release()

    def _enter(self, wait_s: float) -> None:
        if not self._depth:
            self._acquire(wait_s)
        self._depth += 1

    def _leave(self) -> None:
        self._depth -= 1
        if not self._depth:
            os.close(self._fd)
            self._fd = -1

    def _acquire(self, wait_s: float) -> None:
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise BackendError(
                f"{self._path} cannot be opened: {error.strerror}; nothing was done"
            ) from error
        deadline = time.monotonic() + wait_s
        while not try_lock(fd):
            if time.monotonic() > deadline:
                holder = (
                    os.pread(fd, _HOLDER_BYTES, 0).decode("utf-8", "replace").strip() or "another process"
                )
                os.close(fd)
                raise RunBusy(
                    f"{holder} is working on this workspace; nothing was changed",
                    hint="try again when it is done",
                )
            time.sleep(_POLL_S)
        self._fd = fd
        with suppress(OSError):  # on a full disk the holder stays unnamed; the lock is held anyway
            # Always the same length: truncating the file would cost more than the rest.
            os.pwrite(fd, f"process {os.getpid()}".ljust(_HOLDER_BYTES).encode(), 0)


def try_lock(fd: int) -> bool:
    """Take the kernel's lock on an open file, which ends with it. Return False if another process has it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
