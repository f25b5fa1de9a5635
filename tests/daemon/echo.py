"""A daemon that says what it was told, in a process of its own: `echo.py HOME IDLE_S`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from takeback.daemon.server import Server
from takeback.daemon.wire import Answer, Request


def handle(request: Request) -> Answer:
    if request.data.startswith(b"die"):
        os._exit(9)
    if request.data.startswith(b"sleep"):
        time.sleep(0.5)
    told = f"{request.agent} {request.cwd} {sorted(request.environment)} {os.getpid()}\n"
    return Answer(len(request.data) % 100, told.encode() + request.data, b"said to the human")


if __name__ == "__main__":
    served = Server(Path(sys.argv[1]), handle, idle_s=float(sys.argv[2])).serve()
    sys.exit(0 if served else 3)
