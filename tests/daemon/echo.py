"""A daemon that says what it was told, in a process of its own: `echo.py HOME IDLE_S`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from takeback.daemon.server import Desk, Server, Waiting
from takeback.daemon.wire import Answer, Request


class Echo(Desk):
    def answer(self, request: Request, waiting: Waiting) -> Answer:
        if request.data.startswith(b"die"):
            os._exit(9)
        if request.data.startswith(b"sleep"):
            time.sleep(0.5)
        if request.data.startswith(b"gone"):
            deadline = time.monotonic() + 60
            while waiting() and time.monotonic() < deadline:
                time.sleep(0.01)
            Path(os.fsdecode(request.data[5:])).write_text(str(waiting()))
        told = f"{request.agent} {request.folder} {sorted(request.environment)} {os.getpid()}\n"
        return Answer(len(request.data) % 100, told.encode() + request.data, b"said to the human")

    def close(self) -> None:
        return


if __name__ == "__main__":
    served = Server(Path(sys.argv[1]), idle_s=float(sys.argv[2])).serve(Echo)
    sys.exit(0 if served else 3)
