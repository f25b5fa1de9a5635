"""A way to the server that can be cut after any byte, in either direction."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from urllib.parse import parse_qs, urlsplit

CLIENT, SERVER = "client", "server"


class Proxy:
    """Listens on the loopback and hands everything on to the server."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._guard = threading.Lock()
        self._open: list[socket.socket] = []
        self.passed = {CLIENT: 0, SERVER: 0}
        """How many bytes came from each side."""
        self._cut_at: tuple[str, int] | None = None
        self.cuts = 0
        self.refuse = False
        self.refused = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def dsn(self) -> str:
        port = self._listening.getsockname()[1]
        return f"postgresql://postgres:@127.0.0.1:{port}{urlsplit(self._dsn).path}"

    def cut_after(self, side: str, count: int) -> None:
        """Hand on so many more bytes of one side, and cut everything then; once."""
        with self._guard:
            self._cut_at = (side, self.passed[side] + count)

    def disarm(self) -> None:
        with self._guard:
            self._cut_at = None

    def cut(self) -> None:
        """Cut everything now."""
        with self._guard:
            self._cut_all()

    def close(self) -> None:
        self._listening.close()
        self.cut()

    def _cut_all(self) -> None:
        self.cuts += 1
        self._cut_at = None
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._open.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if self.refuse:
                self.refused += 1
                client.close()
                continue
            parts = urlsplit(self._dsn)
            folder = parse_qs(parts.query)["host"][0]
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(f"{folder}/.s.PGSQL.{parts.port or 5432}")
            except OSError:
                client.close()
                continue
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._guard:
                self._open += [client, server]
            for side, source, sink in ((CLIENT, client, server), (SERVER, server, client)):
                threading.Thread(target=self._pump, args=(side, source, sink), daemon=True).start()

    def _pump(self, side: str, source: socket.socket, sink: socket.socket) -> None:
        while True:
            try:
                data = source.recv(1 << 16)
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                with self._guard:
                    is_over = False
                    if self._cut_at and self._cut_at[0] == side:
                        data = data[: max(0, self._cut_at[1] - self.passed[side])]
                        is_over = self.passed[side] + len(data) >= self._cut_at[1]
                    self.passed[side] += len(data)
                    sink.sendall(data)
                    if is_over:
                        self._cut_all()
                        return
            except OSError:
                return
