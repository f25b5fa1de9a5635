"""Reading and writing a database in another process, where this one has it open.

SQLite's locks belong to a process. Whoever opens and closes a database in a process that has it open already drops
the locks of the other connection, unless both are of the same SQLite; and the one that comes with Python is not
ours. So a database that is open in this process is read and written in another one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from takeback.core.codec import text_of
from takeback.errors import BackendError
from takeback.resources.sqlite import damaged, reading, writing
from takeback.resources.sqlite.own_files import descriptors
from takeback.resources.sqlite.reading import Taken

_MORE_S = 600.0


def take(path: bytes, to: bytes, wait_s: float) -> Taken:
    """See reading.take."""
    if not descriptors(path):
        return reading.take(path, to, wait_s)
    return msgspec.convert(_elsewhere("take", path, to, wait_s), Taken)


def is_locked(path: bytes, wait_s: float) -> bool:
    """See reading.is_locked. Not asked where the lock may be our own."""
    try:
        return not descriptors(path) and reading.is_locked(path, wait_s)
    except OSError:
        # Gone meanwhile, or nothing that we may read.
        return False


def put(path: bytes, image: bytes, expected: str, scratch: bytes, *, wal: bool) -> str:
    """See writing.put."""
    if not descriptors(path):
        return writing.put(path, image, expected, scratch, wal=wal)
    return str(_elsewhere("put", path, image, expected, scratch, wal=wal))


def move(path: bytes, base: bytes, goal: bytes) -> str:
    """See writing.move."""
    if not descriptors(path):
        return writing.move(path, base, goal)
    return str(_elsewhere("move", path, base, goal))


def remove(path: bytes, expected: str, scratch: bytes, visible: bytes) -> str:
    """See writing.remove."""
    if not descriptors(path):
        return writing.remove(path, expected, scratch, visible)
    return str(_elsewhere("remove", path, expected, scratch, visible))


def empty(path: bytes, expected: str, scratch: bytes) -> str:
    """See writing.empty."""
    if not descriptors(path):
        return writing.empty(path, expected, scratch)
    return str(_elsewhere("empty", path, expected, scratch))


def fill(path: bytes, image: bytes) -> str:
    """See writing.fill."""
    if not descriptors(path):
        return writing.fill(path, image)
    return str(_elsewhere("fill", path, image))


def replace(path: bytes, expected: str, image: bytes, mode: int, uid: int, gid: int) -> str:
    """See damaged.replace."""
    if not descriptors(path):
        return damaged.replace(path, expected, image, mode, uid, gid)
    return str(_elsewhere("replace", path, expected, image, mode, uid, gid))


def _elsewhere(name: str, *given: Any, **named: Any) -> Any:
    """Call one of these in a process of its own."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__],
            input=msgspec.msgpack.encode((name, given, named)),
            env=os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
            capture_output=True,
            timeout=_MORE_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _failed(given[0], str(error)) from error
    if done.returncode:
        raise _failed(given[0], done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2])
    return msgspec.msgpack.decode(done.stdout)


def _failed(path: bytes, why: str) -> BackendError:
    return BackendError(
        f"{text_of(path)} is open in this process, and another one could not look at it: {why[:300]}",
        hint="close the connection that this process has, and try again",
    )


def _main() -> None:
    name, given, named = msgspec.msgpack.decode(sys.stdin.buffer.read())
    functions: dict[str, Callable[..., Taken | str]] = {
        "take": reading.take,
        "put": writing.put,
        "move": writing.move,
        "remove": writing.remove,
        "empty": writing.empty,
        "fill": writing.fill,
        "replace": damaged.replace,
    }
    sys.stdout.buffer.write(msgspec.msgpack.encode(functions[name](*given, **named)))


if __name__ == "__main__":
    _main()
