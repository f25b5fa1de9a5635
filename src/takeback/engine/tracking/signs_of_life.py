"""Signs of life: a file for each action that its owner touches from time to time."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from takeback.errors import BackendError
from takeback.system.private_files import unusable

SHOW_S = 0.02

_given_up: set[tuple[int, str, str]] = set()
"""Actions that this process abandoned without being able to record their end: pid, folder, id."""


class SignsOfLife:
    """The folder of the signs of life."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def show(self, action_id: str) -> None:
        """Show that the owner of this action lives."""
        path = self._folder / action_id
        try:
            try:
                os.utime(path)
            except FileNotFoundError:
                self._folder.mkdir(mode=0o700, exist_ok=True)
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise unusable(path, error) from error

    def last_ns(self, action_id: str) -> int:
        """Return when the owner was last known to live, in nanoseconds; 0 if unknown."""
        try:
            return os.stat(self._folder / action_id).st_mtime_ns
        except FileNotFoundError:
            return 0

    def give_up(self, action_id: str) -> None:
        """Note that this living process abandoned the action, because its end could not be recorded."""
        _given_up.add((os.getpid(), str(self._folder), action_id))

    def is_given_up(self, action_id: str) -> bool:
        """Return whether this process has abandoned the action."""
        return (os.getpid(), str(self._folder), action_id) in _given_up

    def end(self, action_id: str) -> None:
        """Remove the sign of life of an action whose end is recorded."""
        try:
            os.unlink(self._folder / action_id)
        except FileNotFoundError:
            return


class Heartbeat:
    """A thread that shows signs of life for some actions, until it is stopped. Without any it ends by itself."""

    def __init__(self, signs: SignsOfLife, every_s: float) -> None:
        self._signs = signs
        self._every_s = every_s
        self._shown = 0.0
        self._ids: set[str] = set()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._changing = threading.Lock()

    def start(self) -> None:
        """Start the thread. Before an action begins: its end then tells from the count that nothing was started."""
        with self._changing:
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat, name="takeback-life", daemon=True)
                self._thread.start()

    def add(self, id: str) -> None:
        self._signs.show(id)
        with self._changing:
            self._ids.add(id)
        self.start()

    def remove(self, id: str) -> None:
        self._ids.discard(id)
        self._signs.end(id)

    def show(self, *, last: bool = False) -> None:
        """Show a sign of life now, unless one was shown a moment ago, which proves nearly as much.

        The `last` one is always shown: it proves everything if the end cannot be recorded.
        """
        now = time.monotonic()
        if last or now - self._shown > SHOW_S:
            self._shown = now
            for id in list(self._ids):
                self._signs.show(id)

    def stop(self) -> None:
        self._stopped.set()
        with self._changing:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _beat(self) -> None:
        while not self._stopped.wait(self._every_s):
            with self._changing:
                if not self._ids:
                    self._thread = None  # the next action starts another one
                    return
            with suppress(BackendError):  # what changes without a sign is in doubt later
                self.show()
