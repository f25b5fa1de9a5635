"""Messages on the daemon's socket. client.py is the other end, and describes their form."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from takeback.daemon.client import MAGIC

REQUEST_BYTES_MAX = 64 << 20
FIELDS_MIN = 5

STATUS, STOP = QUESTIONS = (":status", ":stop")
"""Requests about the daemon itself, in place of an agent's name."""


class Request(msgspec.Struct, frozen=True):
    """One event of an agent, and where it came from."""

    identity: bytes
    agent: str
    folder: str
    """Where the hook was started; a single dot if that folder is gone."""
    pid: int
    """The process that started the hook: the agent, or its shell."""
    environment: Mapping[str, str]
    data: bytes


class Answer(msgspec.Struct, frozen=True):
    """The answer to the agent, in its own dialect."""

    code: int = 0
    out: bytes = b""
    err: bytes = b""

    def encoded(self) -> bytes:
        return b"%d %d %d\n" % (self.code, len(self.out), len(self.err)) + self.out + self.err


class OpenWorkspace(msgspec.Struct, frozen=True):
    """An open workspace, and the evidence of its last look."""

    root: str
    proof: str = ""


class Status(msgspec.Struct, frozen=True):
    """A daemon's report about itself."""

    pid: int
    version: str
    since_us: int
    events: int
    memory_bytes: int
    workspaces: tuple[OpenWorkspace, ...] = ()


class Garbled(ValueError):
    """A request that client.py does not send."""


def read(message: bytes) -> Request:
    head, separator, data = message.partition(b"\0\0")
    fields = head.split(b"\0")
    if not separator or fields[0] != MAGIC or len(fields) < FIELDS_MIN or not fields[4].isdigit():
        raise Garbled("this is not an event of an agent")
    passed = [os.fsdecode(field).partition("=") for field in fields[5:]]
    return Request(
        identity=fields[1],
        agent=os.fsdecode(fields[2]),
        folder=os.fsdecode(fields[3]),
        pid=int(fields[4]),
        environment={name: value for name, _, value in passed},
        data=data,
    )
