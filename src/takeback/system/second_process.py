"""Doing half of some long work in a second process.

It is forked: it has all that this one knows, without a word said, and gives back only what it found. Threads would
not do, since hashing small files and looking at paths is work for Python itself.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

S = TypeVar("S")
R = TypeVar("R")


def possible() -> bool:
    """Whether a second process can be forked, and has a processor to run on. A fork and threads do not mix."""
    return sys.platform == "linux" and threading.active_count() == 1 and (os.cpu_count() or 1) > 1


def both(do: Callable[[S], R], mine: S, theirs: S, kind: type[R]) -> tuple[R, R]:
    """What `do` gives for each share. If the second process cannot finish, this one does its share too."""
    reader, child = _fork(do, theirs)
    try:
        found = do(mine)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        _collect(reader, child, kind)
        raise
    other = _collect(reader, child, kind)
    return found, do(theirs) if other is None else other


def halves(items: Iterable[S], weight: Callable[[S], int]) -> tuple[list[S], list[S]]:
    """Two lists of about the same weight, neighbours together."""
    first, second = list(items), []
    left = sum(map(weight, first)) // 2
    while first and left > 0:
        left -= weight(first[-1])
        second.append(first.pop())
    return first, second[::-1]


def _fork(do: Callable[[S], R], share: S) -> tuple[int, int]:
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        return reader, child
    code = 1
    try:
        os.close(reader)
        with os.fdopen(writer, "wb") as out:
            out.write(msgspec.msgpack.encode(do(share)))
        code = 0
    finally:
        # Nothing of the parent's may run here: no exit handlers, no flushing of its buffers.
        os._exit(code)


def _collect(reader: int, child: int, kind: type[R]) -> R | None:
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    return None if status else msgspec.msgpack.decode(data, type=kind)
