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
SHOW_EVERY_S = 1.0

_given_up: set[tuple[int, str, str]] = set()
"""Actions that this process abandoned without being able to record their end: pid, folder, id."""


class SignsOfLife:
    """The folder of the signs of life."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)

    def show(self, action_id: str) -> None:
        """Show that the owner of this action lives."""
        path = f"{self._folder}/{action_id}"
        try:
            try:
                os.utime(path)
            except FileNotFoundError:
                _create(path)
        except OSError as error:
            raise unusable(Path(path), error) from error

    def last_ns(self, action_id: str) -> int:
        """Return when the owner was last known to live, in nanoseconds; 0 if unknown."""
        try:
            return os.stat(f"{self._folder}/{action_id}").st_mtime_ns
        except FileNotFoundError:
            return 0

    def give_up(self, action_id: str) -> None:
        """Note that this living process abandoned the action, because its end could not be recorded."""
        _given_up.add((os.getpid(), self._folder, action_id))

    def is_given_up(self, action_id: str) -> bool:
        """Return whether this process has abandoned the action."""
        return (os.getpid(), self._folder, action_id) in _given_up

    def end(self, action_id: str) -> None:
        """Remove the sign of life of an action whose end is recorded."""
        try:
            os.unlink(f"{self._folder}/{action_id}")
        except FileNotFoundError:
            return


def _create(path: str) -> None:
    try:
        fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    os.close(fd)


class Pulse:
    """The one thread of a process that shows signs of life from time to time, for all that is at work in it.

    A thread for each block would take longer to start and to join than the block takes to record. It ends by itself
    when nothing was at work for a while, and before a fork if nothing is at work then.
    """

    def __init__(self) -> None:
        self._changing = threading.RLock()  # reentrant: a signal handler may begin or end an action
        self._beating = threading.Lock()
        self._at_work: set[Heartbeat] = set()
        self._thread: threading.Thread | None = None
        self._over = threading.Event()

    def start(self) -> None:
        """Start the thread, unless it is there."""
        with self._changing:
            if self._thread is None:
                self._over = threading.Event()
                self._thread = threading.Thread(
                    target=self._go_on, args=(self._over,), name="takeback-life", daemon=True
                )
                self._thread.start()

    def add(self, beat: Heartbeat) -> None:
        with self._changing:
            self._at_work.add(beat)
        self.start()

    def remove(self, beat: Heartbeat) -> None:
        with self._changing:
            self._at_work.discard(beat)

    def _go_on(self, over: threading.Event) -> None:
        while not over.wait(SHOW_EVERY_S):
            with self._changing:
                at_work = list(self._at_work)
                if not at_work and self._thread is threading.current_thread():
                    self._thread = None  # the next action starts another one
            if not at_work:
                return
            with self._beating:
                for beat in at_work:
                    with suppress(BackendError):  # what changes without a sign is in doubt later
                        beat.show()

    def before_fork(self) -> None:
        """Hold still. An idle thread ends: a program that forks should have none that it did not start."""
        with self._changing:
            thread = None if self._at_work else self._thread
            if thread:
                self._thread = None
                self._over.set()
        if thread:
            thread.join()
        self._beating.acquire()

    def after_fork(self) -> None:
        self._beating.release()


_pulse = Pulse()
os.register_at_fork(
    before=_pulse.before_fork,
    after_in_parent=_pulse.after_fork,
    after_in_child=lambda: Pulse.__init__(_pulse),  # the thread is the parent's, and so is what it shows
)


class Heartbeat:
    """Shows signs of life for some actions, until it is stopped."""

    def __init__(self, signs: SignsOfLife) -> None:
        self._signs = signs
        self._shown = 0.0
        self._ids: set[str] = set()
        self._showing = threading.RLock()  # reentrant: a signal handler may end an action

    def start(self) -> None:
        """Start the thread. Before an action begins: its end then tells from the count that nothing was started."""
        _pulse.start()

    def add(self, id: str) -> None:
        self._signs.show(id)
        with self._showing:
            self._ids.add(id)
        _pulse.add(self)

    def remove(self, id: str) -> None:
        with self._showing:  # nobody shows it after its end
            self._ids.discard(id)
            self._signs.end(id)
            if not self._ids:
                _pulse.remove(self)

    def show(self, *, last: bool = False) -> None:
        """Show a sign of life now, unless one was shown a moment ago, which proves nearly as much.

        The `last` one is always shown: it proves everything if the end cannot be recorded.
        """
        with self._showing:
            now = time.monotonic()
            if last or now - self._shown > SHOW_S:
                self._shown = now
                for id in self._ids:
                    self._signs.show(id)

    def stop(self) -> None:
        """Show nothing from now on."""
        with self._showing:
            self._ids.clear()
        _pulse.remove(self)
