"""A mail server on loopback that knows just enough, and fails on command."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Mapping
from typing import Any


class MailServer:
    """`trouble` maps a command to what is answered instead; nothing means to hang up."""

    def __init__(self, trouble: Mapping[str, str] | None = None) -> None:
        self.mails: list[tuple[list[str], str]] = []
        self._trouble = dict(trouble or {})
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                outer._talk(self)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> MailServer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _talk(self, line: Any) -> None:
        def say(text: str) -> None:
            line.wfile.write(f"{text}\r\n".encode())

        say("220 ready")
        recipients: list[str] = []
        while words := line.rfile.readline().decode().strip():
            verb = words.split()[0].upper()
            if verb in self._trouble and verb != "DATA":
                if not self._trouble[verb]:
                    return
                say(self._trouble[verb])
                continue
            if verb == "RCPT":
                recipients.append(words.partition("<")[2].partition(">")[0])
            if verb == "DATA":
                say("354 go on")
                text = b""
                while not text.endswith(b"\r\n.\r\n"):
                    text += line.rfile.readline()
                if "DATA" in self._trouble:
                    if self._trouble["DATA"]:
                        say(self._trouble["DATA"])
                        continue
                    return
                self.mails.append((recipients, text.decode()))
            say("221 bye" if verb == "QUIT" else "250 ok")
