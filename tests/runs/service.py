"""A booking service on loopback, in a process of its own: the other system that runs make calls to.

It is the witness of what really happened there. It knows idempotency keys if it is asked to honour them, keeps
every request that came, and fails before or after the effect on command, or lies.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ADDRESS = "TAKEBACK_TEST_SERVICE"


class Refused(Exception):
    """The service said no."""


def ask(operation: str, /, **given: Any) -> Any:
    """Send one request. ConnectionError where no answer came, Refused where the answer is no."""
    connection = http.client.HTTPConnection("127.0.0.1", int(os.environ[ADDRESS]), timeout=30)
    try:
        connection.request("POST", f"/{operation}", json.dumps(given))
        answer = connection.getresponse()
        body = json.loads(answer.read())
    except http.client.HTTPException as error:
        raise ConnectionError(f"no answer: {type(error).__name__}") from error
    finally:
        connection.close()
    if answer.status != 200:
        raise Refused(body["error"])
    return body


class World:
    """What the service has, and what it was asked."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.bookings: list[dict[str, Any]] = []
        self.made: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.plans: dict[tuple[str, str], tuple[str, int]] = {}
        self.number = 0

    def failure(self, operation: str, item: str) -> str:
        for name in ((operation, item), (operation, "*")):
            when, left = self.plans.get(name, ("", 0))
            if left:
                self.plans[name] = (when, left - 1)
                return when
        return ""

    def book(self, item: str, key: str = "", idempotent: bool = False, **_: Any) -> Any:
        if idempotent and (found := self.find(key)):
            return found
        self.number += 1
        booking = {"id": self.number, "item": item, "key": key}
        self.bookings.append(booking)
        self.made[item] += 1
        return booking

    def cancel(self, key: str, **_: Any) -> Any:
        self.bookings = [booking for booking in self.bookings if booking["key"] != key]
        return True

    def find(self, key: str, **_: Any) -> Any:
        return next((booking for booking in self.bookings if booking["key"] == key), None)

    def world(self, **_: Any) -> Any:
        return {"bookings": self.bookings, "made": self.made, "asked": self.asked}

    def fail(self, operation: str, item: str = "*", when: str = "before", times: int = 10**9) -> Any:
        self.plans[operation, item] = (when, times)

    def heal(self, **_: Any) -> Any:
        self.plans.clear()

    def reset(self, **_: Any) -> Any:
        self.plans.clear()
        self.bookings.clear()
        self.made.clear()
        self.asked.clear()


def handler(world: World) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            operation = self.path.strip("/")
            given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with world.lock:
                control = operation in ("world", "fail", "heal", "reset")
                when = "" if control else world.failure(operation, given.get("item", "*"))
                if not control:
                    world.asked[f"{operation} {given.get('item', '')}".strip()] += 1
                if when == "before":
                    return self._say(503, {"error": f"{operation} is out of order"})
                if when == "mute":  # nothing done, and no answer
                    self.close_connection = True
                    return None
                if when == "lie":
                    return self._say(200, True)
                body = json.dumps(getattr(world, operation)(**given)).encode()
            if when == "after":
                self._say(500, {"error": f"{operation} broke down after it was done"})
            elif when == "silent":
                self.close_connection = True
            else:
                self._send(200, body)

        def _say(self, code: int, answer: Any) -> None:
            self._send(code, json.dumps(answer).encode())

        def _send(self, code: int, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Not on our standard error."""

    return Handler


@contextmanager
def running() -> Iterator[None]:
    """The service, for as long as this block lasts; whoever inherits the environment finds it."""
    with subprocess.Popen(
        [sys.executable, __file__], stdout=subprocess.PIPE, stdin=subprocess.PIPE
    ) as process:
        assert process.stdout
        before = os.environ.get(ADDRESS)
        os.environ[ADDRESS] = process.stdout.readline().decode().strip()
        try:
            yield
        finally:
            os.environ.pop(ADDRESS)
            if before is not None:
                os.environ[ADDRESS] = before
            process.kill()


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(World()))
    # It ends with whoever started it, however that one ended.
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
