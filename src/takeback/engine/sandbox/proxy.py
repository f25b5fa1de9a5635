"""A forwarding proxy for a sandbox without a network: it reaches the hosts that a human named, and no others.

It listens on the private loopback of the sandbox and connects from outside. It speaks HTTP's CONNECT, which is what
package managers and git use for https, and plain requests with an absolute address. It never looks inside TLS.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

HEAD_MAX = 64 * 1024
CONNECT_S = 30.0
CONNECTIONS_MAX = 64
_CHUNK = 64 * 1024
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
NOT_FOR = "localhost,127.0.0.1,::1"


def environment(port: int) -> dict[str, str]:
    """Return the variables by which programs find the proxy."""
    address = f"http://127.0.0.1:{port}"
    return dict.fromkeys(VARIABLES, address) | {"NO_PROXY": NOT_FOR, "no_proxy": NOT_FOR}


def is_among(hosts: Sequence[str], host: str, port: int) -> bool:
    """Return whether a host was named: `example.org`, `example.org:443`, or `*.example.org` for all below it."""
    asked = host.lower().rstrip(".")
    for each in hosts:
        name, _, only = (
            each.lower().rpartition(":") if each.rpartition(":")[2].isdigit() else (each.lower(), "", "")
        )
        if only and int(only) != port:
            continue
        if asked == name or (name.startswith("*.") and asked.endswith(name[1:])):
            return True
    return False


class Proxy:
    """Serves the connections of one sandbox, each in a thread of its own."""

    def __init__(self, server: socket.socket, hosts: Sequence[str], denied: Callable[[str], None]) -> None:
        self._server = server
        self._hosts = hosts
        self._denied = denied
        self._room = threading.BoundedSemaphore(CONNECTIONS_MAX)

    def start(self) -> None:
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            self._room.acquire()
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        try:
            with near, suppress(OSError, ValueError):
                self._forward(near)
        finally:
            self._room.release()

    def _forward(self, near: socket.socket) -> None:
        head, rest = _read_head(near)
        method, target, version = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        url = urlsplit(f"//{target}" if method == "CONNECT" else target)
        port = url.port or 80
        if not url.hostname or not is_among(self._hosts, url.hostname, port):
            self._denied(f"{url.hostname}:{port}")
            _refuse(near, 403, f"Takeback: {url.hostname} is not among the hosts of this sandbox")
            return
        try:
            far = socket.create_connection((url.hostname, port), CONNECT_S)
        except OSError as error:
            _refuse(near, 502, f"Takeback: {url.hostname} could not be reached: {error}")
            return
        with far:
            far.settimeout(None)
            if method == "CONNECT":
                near.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                far.sendall(rest)
            else:
                far.sendall(_plain_head(head, method, url.path or "/", url.query, version) + rest)
            _copy_both(near, far)


def _read_head(near: socket.socket) -> tuple[bytes, bytes]:
    near.settimeout(CONNECT_S)
    found = b""
    while b"\r\n\r\n" not in found:
        part = near.recv(_CHUNK)
        if not part or len(found) > HEAD_MAX:
            raise ValueError
        found += part
    near.settimeout(None)
    head, _, rest = found.partition(b"\r\n\r\n")
    return head, rest


def _plain_head(head: bytes, method: str, path: str, query: str, version: str) -> bytes:
    """Return the head of a request for the server itself. Only one each: the next may be for another host."""
    lines = head.split(b"\r\n")[1:]
    kept = [line for line in lines if line.split(b":")[0].lower() not in (b"proxy-connection", b"connection")]
    first = f"{method} {path}{'?' + query if query else ''} {version}".encode("latin-1")
    return b"\r\n".join([first, *kept, b"Connection: close"]) + b"\r\n\r\n"


def _refuse(near: socket.socket, code: int, why: str) -> None:
    body = f"{why}\n".encode()
    near.sendall(
        f"HTTP/1.1 {code} {why}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
    )


def _copy_both(near: socket.socket, far: socket.socket) -> None:
    other = threading.Thread(target=_copy, args=(far, near), daemon=True)
    other.start()
    _copy(near, far)
    other.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(_CHUNK):
            target.sendall(part)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
