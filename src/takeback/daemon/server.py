"""The daemon's server: one for each user, on a socket that only they can open; it ends after idling for long."""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from takeback.daemon import client, wire
from takeback.daemon.wire import Answer, Request
from takeback.system.private_files import private_file, private_folder

IDLE_S = 1800.0
LOOK_S = 5.0
AT_ONCE_MAX = 64
READ_WAIT_S = 30.0
FINISH_WAIT_S = 60.0
REPLACE_WAIT_S = 5.0
SETTLED_S = 0.5
POLL_S = 0.01

Waiting = Callable[[], bool]
"""Returns True while the caller still waits for the answer."""


class Desk(ABC):
    """What answers requests."""

    @abstractmethod
    def answer(self, request: Request, waiting: Waiting) -> Answer:
        """Return the answer to a request. Called in several threads at once."""

    @abstractmethod
    def close(self) -> None:
        """Release what answering needed. Called once, after the last answer."""


class Server:
    """A listener, until it has idled for long, is asked to stop, or another installation replaces it."""

    def __init__(self, home: Path, *, idle_s: float = IDLE_S) -> None:
        self._home = private_folder(home)
        self._path = home / os.fsdecode(client.SOCKET)
        self._idle_s = idle_s
        self._identity = client.identity()
        self._busy = threading.BoundedSemaphore(AT_ONCE_MAX)
        self._working = 0
        self._changed = threading.Condition()
        self._last_s = time.monotonic()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._own = (0, 0)
        self._stopping = threading.Event()
        self.served = 0

    def serve(self, prepare: Callable[[], Desk]) -> bool:
        """Serve until the end, or return False if another daemon already does. `prepare`, which is costly, runs only
        then."""
        lock = self._home / "daemon.lock"
        private_file(lock)
        with lock.open("r+b") as file:
            if not self._is_alone(file.fileno()):
                return False
            file.truncate(0)
            file.write(b"%d\n" % os.getpid())
            file.flush()
            desk = prepare()
            with self._listening() as listener:
                self._accept(listener, desk)
                # The name is removed first: a new caller starts another daemon, which waits for the lock.
                if self._is_known():
                    self._path.unlink(missing_ok=True)
            self._finish(desk)
        return True

    def stop(self) -> None:
        """Accept no more events. Those already accepted are answered."""
        self._stopping.set()
        os.eventfd_write(self._bell, 1)

    @property
    def idle_s(self) -> float:
        with self._changed:
            return 0.0 if self._working else time.monotonic() - self._last_s

    def _is_alone(self, fd: int) -> bool:
        """Lock the place of the one daemon. A daemon that is being replaced has no socket, and needs a moment to
        end."""
        begun = time.monotonic()
        while not _locked(fd):
            waited = time.monotonic() - begun
            if waited > REPLACE_WAIT_S or (waited > SETTLED_S and self._path.exists()):
                return False
            time.sleep(POLL_S)
        return True

    def _listening(self) -> socket.socket:
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        folder = os.open(self._home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        before = os.umask(0o177)
        try:
            listener.bind(f"/proc/self/fd/{folder}/{os.fsdecode(client.SOCKET)}")
        finally:
            os.umask(before)
            os.close(folder)
        self._own = _number(self._path)
        listener.listen(AT_ONCE_MAX)
        listener.setblocking(False)
        return listener

    def _is_known(self) -> bool:
        """Return True if our socket is still at its path: the state folder may have been removed."""
        return _number(self._path) == self._own

    def _accept(self, listener: socket.socket, desk: Desk) -> None:
        door, wait_s = select.poll(), min(LOOK_S, self._idle_s / 2)
        door.register(listener, select.POLLIN)
        door.register(self._bell, select.POLLIN)
        while not self._stopping.is_set() and self.idle_s <= self._idle_s:
            if not door.poll(wait_s * 1000):
                if not self._is_known():
                    return
                continue
            try:
                connection, _ = listener.accept()
            except BlockingIOError:
                continue  # it was the bell, or a caller that went away
            self._busy.acquire()
            with self._changed:
                self._working += 1
            threading.Thread(target=self._serve_one, args=(connection, desk), daemon=True).start()

    def _finish(self, desk: Desk) -> None:
        """Wait until every caller is served, but not for ever."""
        with self._changed:
            done = self._changed.wait_for(lambda: not self._working, FINISH_WAIT_S)
        if done:
            desk.close()

    def _serve_one(self, connection: socket.socket, desk: Desk) -> None:
        try:
            with connection:
                if _is_own(connection):
                    self._answer(connection, desk)
        except (OSError, wire.Garbled):
            # The caller has gone away, or was not client.py. It sends its event again, or not at all.
            return
        finally:
            self._busy.release()
            with self._changed:
                self._working -= 1
                self._last_s = time.monotonic()
                self._changed.notify_all()

    def _answer(self, connection: socket.socket, desk: Desk) -> None:
        connection.settimeout(READ_WAIT_S)
        request = wire.read(_whole(connection))
        if request.identity != self._identity and request.agent not in wire.QUESTIONS:
            # Another installation asks. It starts its own daemon as soon as this one is gone.
            self.stop()
            return
        self.served += request.agent not in wire.QUESTIONS
        answer = desk.answer(request, lambda: _is_waiting(connection))
        connection.sendall(answer.encoded())


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _number(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0)
    return found.st_dev, found.st_ino


def _whole(connection: socket.socket) -> bytes:
    parts, size = [], 0
    while part := connection.recv(1 << 16):
        parts.append(part)
        size += len(part)
        if size > wire.REQUEST_BYTES_MAX:
            raise wire.Garbled("this is too large for an event")
    return b"".join(parts)


def _is_own(connection: socket.socket) -> bool:
    """Return True if the kernel says that the caller is our user. The socket's mode already keeps others out."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", raw)
    return bool(uid == os.geteuid())


def _is_waiting(connection: socket.socket) -> bool:
    """Return True if the other end is still open. Its end of input does not matter: the request is complete."""
    poll = select.poll()
    poll.register(connection, 0)  # the kernel always reports a hang-up
    return not any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))
