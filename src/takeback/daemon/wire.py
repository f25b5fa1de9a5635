"""What goes over the daemon's socket. client.py has the other end, and the words on its form."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from takeback.daemon.client import MAGIC

REQUEST_BYTES_MAX = 64 << 20
FIELDS_MIN = 5

STATUS, STOP = QUESTIONS = (":status", ":stop")
"""What is asked of the daemon itself, in the place of an agent's name."""


class Request(msgspec.Struct, frozen=True):
    """One event of an agent, and where it came from."""

    identity: bytes
    agent: str
    folder: str
    """Where the hook was started; a single dot where that is gone."""
    pid: int
    """The process that asked for us: the agent, or a shell of it."""
    environment: Mapping[str, str]
    data: bytes


class Answer(msgspec.Struct, frozen=True):
    """What the agent is to be told, in its own dialect."""

    code: int = 0
    out: bytes = b""
    err: bytes = b""

    def encoded(self) -> bytes:
        return b"%d %d %d\n" % (self.code, len(self.out), len(self.err)) + self.out + self.err


class OpenWorkspace(msgspec.Struct, frozen=True):
    """One that is open, and how its last look was proved."""

    root: str
    proof: str = ""


class Status(msgspec.Struct, frozen=True):
    """What a daemon says of itself."""

    pid: int
    version: str
    since_us: int
    events: int
    memory_bytes: int
    workspaces: tuple[OpenWorkspace, ...] = ()


class Garbled(ValueError):
    """Not what client.py sends."""


def read(message: bytes) -> Request:
    head, separator, data = message.partition(b"\0\0")
    fields = head.split(b"\0")
    if not separator or fields[0] != MAGIC or len(fields) < FIELDS_MIN or not fields[4].isdigit():
        raise Garbled("this is no event of an agent")
    told = [os.fsdecode(field).partition("=") for field in fields[5:]]
    return Request(
        identity=fields[1],
        agent=os.fsdecode(fields[2]),
        folder=os.fsdecode(fields[3]),
        pid=int(fields[4]),
        environment={name: value for name, _, value in told},
        data=data,
    )
