"""The daemon itself: one for each user, on a socket that only they can open; it ends when nobody needs it."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

from takeback.daemon import knock, wire
from takeback.daemon.wire import Answer, Request
from takeback.storage.private import private_file, private_folder

IDLE_S = 1800.0
AT_ONCE_MAX = 64
READ_WAIT_S = 30.0
REPLACE_WAIT_S = 3.0
POLL_S = 0.01

Handler = Callable[[Request], Answer]


class Server:
    """Listens until it is idle for long, asked to stop, or replaced by another installation."""

    def __init__(self, home: Path, handler: Handler, *, idle_s: float = IDLE_S) -> None:
        self._home = private_folder(home)
        self._handler = handler
        self._idle_s = idle_s
        self._identity = knock.identity()
        self._busy = threading.BoundedSemaphore(AT_ONCE_MAX)
        self._working = 0
        self._changed = threading.Condition()
        self._last_s = time.monotonic()
        self._stopping = False

    def serve(self) -> bool:
        """Serve until the end; False where another daemon does already."""
        lock = self._home / "daemon.lock"
        private_file(lock)
        with lock.open("r+b") as file:
            if not _taken(file.fileno()):
                return False
            file.truncate(0)
            file.write(b"%d\n" % os.getpid())
            file.flush()
            with self._listening() as listener:
                self._accept(listener)
                # First the name goes: who comes now starts another one, which waits for the lock.
                self._path.unlink(missing_ok=True)
            self._finish()
        return True

    def stop(self) -> None:
        self._stopping = True

    @property
    def _path(self) -> Path:
        return self._home / knock.SOCKET

    def _listening(self) -> socket.socket:
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        folder = os.open(self._home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        before = os.umask(0o177)
        try:
            listener.bind(f"/proc/self/fd/{folder}/{knock.SOCKET}")
        finally:
            os.umask(before)
            os.close(folder)
        listener.listen(AT_ONCE_MAX)
        listener.settimeout(min(0.2, self._idle_s / 2))
        return listener

    def _accept(self, listener: socket.socket) -> None:
        while not self._stopping and not self._is_idle():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            self._busy.acquire()
            with self._changed:
                self._working += 1
            threading.Thread(target=self._serve_one, args=(connection,), daemon=True).start()

    def _is_idle(self) -> bool:
        with self._changed:
            return not self._working and time.monotonic() - self._last_s > self._idle_s

    def _finish(self) -> None:
        """Whoever is being served is served to the end."""
        with self._changed:
            self._changed.wait_for(lambda: not self._working)

    def _serve_one(self, connection: socket.socket) -> None:
        try:
            with connection:
                if _is_own(connection):
                    self._answer(connection)
        except (OSError, wire.Garbled):
            # Whoever asked has gone away, or never was one of ours. Their event is told again, or not at all.
            return
        finally:
            self._busy.release()
            with self._changed:
                self._working -= 1
                self._last_s = time.monotonic()
                self._changed.notify_all()

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(READ_WAIT_S)
        request = wire.read(_whole(connection))
        if request.identity != self._identity:
            # Another installation asks. It starts its own daemon as soon as this one is gone.
            self._stopping = True
            return
        answer = self._handler(request)
        connection.sendall(answer.encoded())


def _taken(fd: int) -> bool:
    """Take the place of the one daemon. One that is being replaced needs a moment to end."""
    deadline = time.monotonic() + REPLACE_WAIT_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)


def _whole(connection: socket.socket) -> bytes:
    parts, size = [], 0
    while part := connection.recv(1 << 16):
        parts.append(part)
        size += len(part)
        if size > wire.REQUEST_BYTES_MAX:
            raise wire.Garbled("an event of this size is none")
    return b"".join(parts)


def _is_own(connection: socket.socket) -> bool:
    """The socket is closed to others already; the kernel's word on who is there makes sure."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", raw)
    return bool(uid == os.geteuid())
