"""A receiver on loopback, in a process of its own: the witness of what was really delivered.

It honours the idempotency key: a key has one effect, however often it comes. Effects are lines in a file, so that
they outlive the process. On demand it fails before or after the effect, stalls, asks to come again, or says nothing.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

STALL_S = 1.5


class Effects:
    """What was done, once for each key."""

    def __init__(self, folder: Path) -> None:
        self._fd = os.open(folder / "effects", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        self._log = os.open(folder / "requests", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        self._known = {line["key"] for line in effects(folder)}
        self._lock = threading.Lock()

    def take(self, key: str, body: Any) -> None:
        with self._lock:
            if key not in self._known:
                at = time.monotonic()  # one clock for all processes of the machine
                os.write(self._fd, (json.dumps({"key": key, "body": body, "at": at}) + "\n").encode())
                self._known.add(key)

    def note(self, key: str) -> None:
        os.write(self._log, f"{key}\n".encode())


def effects(folder: Path) -> list[dict[str, Any]]:
    """What was done, in order."""
    path = folder / "effects"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def requests(folder: Path) -> Counter[str]:
    """How often each key came."""
    path = folder / "requests"
    return Counter(path.read_text().splitlines()) if path.exists() else Counter()


def status_of(folder: Path, name: str) -> int:
    """Whether an order is there: it was given, and not cancelled."""
    bodies = [effect["body"] for effect in effects(folder)]
    return 200 if f"order {name}" in bodies and f"cancel {name}" not in bodies else 404


class Answering(BaseHTTPRequestHandler):
    def _answer(self, status: int, body: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: Any) -> None:
        """Not on our standard error."""


def handler(folder: Path, trouble: float) -> type[BaseHTTPRequestHandler]:
    done, chance = Effects(folder), random.Random(7)

    class Handler(Answering):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"] or 0)
            data = self.rfile.read(length)
            if len(data) < length:
                self.close_connection = True  # the client was killed in the middle of its request
                return None
            body = json.loads(data or "null")
            key = self.headers.get("Idempotency-Key", "")
            done.note(key)
            path = self.path.strip("/")
            what = path if path != "maybe" else self._by_chance()
            if what in ("gone", "busy", "broken", "mute", "slow"):
                return self._trouble(what)
            done.take(key, body)
            if what in ("broken-after", "mute-after", "slow-after"):
                return self._trouble(what.removesuffix("-after"))
            return self._answer(201, json.dumps({"made": key, "headers": dict(self.headers)}))

        def do_GET(self) -> None:
            self._answer(status_of(folder, self.path.rpartition("/")[2]), "")

        def _by_chance(self) -> str:
            kinds = ["busy", "broken", "mute", "slow", "broken-after", "mute-after", "slow-after"]
            weights = [6, 6, 6, 1, 6, 6, 1]
            return chance.choices(kinds, weights)[0] if chance.random() < trouble else "fine"

        def _trouble(self, what: str) -> None:
            if what == "busy":
                return self._answer(429, "", {"Retry-After": "1" if self.path == "/maybe" else "120"})
            if what in ("gone", "broken"):
                return self._answer({"gone": 410, "broken": 500}[what], "")
            time.sleep(STALL_S if what == "slow" else 0)
            self.close_connection = True
            return None

    return Handler


class Server(ThreadingHTTPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: Any) -> None:
        """A client that was killed."""


class Sink:
    """The process. It can be killed and comes back at the same address, with the same memory."""

    def __init__(self, folder: Path, *, trouble: float = 0.0) -> None:
        self.folder = folder
        self.trouble = trouble
        self.port = 0
        folder.mkdir(exist_ok=True)
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(self.folder), str(self.trouble), str(self.port)],
            stdout=subprocess.PIPE,
            stdin=subprocess.PIPE,
        )
        assert self._process.stdout
        self.port = int(self._process.stdout.readline())

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()

    def url(self, path: str = "fine") -> str:
        return f"http://127.0.0.1:{self.port}/{path}"

    def bodies(self) -> list[Any]:
        return [effect["body"] for effect in effects(self.folder)]


def main(folder: str, trouble: str, port: str) -> None:
    server = Server(("127.0.0.1", int(port)), handler(Path(folder), float(trouble)))
    # It ends with whoever started it, however that one ended.
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
