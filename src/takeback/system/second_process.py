"""Sharing long work with a second process.

It is forked, so it knows all that this one knows, and returns only its results. Threads would not help, because
hashing small files and looking at paths holds Python's interpreter lock.
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
    """Return whether forking is safe (only one thread) and there is a second processor."""
    return sys.platform == "linux" and threading.active_count() == 1 and (os.cpu_count() or 1) > 1


def both(do: Callable[[S], R], mine: S, theirs: S, kind: type[R]) -> tuple[R, R]:
    """Return the results of `do` for both shares. If the second process fails, this one does its share too."""
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
    """Return two lists of about the same weight, in the original order."""
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
        # Nothing of the parent may run here: no exit handlers, no flushing of its buffers.
        os._exit(code)


def _collect(reader: int, child: int, kind: type[R]) -> R | None:
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    return None if status else msgspec.msgpack.decode(data, type=kind)
