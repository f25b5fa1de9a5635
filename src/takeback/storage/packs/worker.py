"""A process that reads files into packs of its own: `python -m takeback.storage.packs.worker`.

It speaks frames over its standard input and output: a length (u32) and that many bytes of msgpack. The first
frame in is the Job. Then each frame in is a list of paths, answered by a list of Ingested; an empty one ends
it, and is answered by the list of finished Parts. No content goes through the pipes.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from struct import Struct
from typing import IO, Any, TypeVar

import msgspec

from takeback.storage.packs.ingest import ingest
from takeback.storage.packs.parts import PartWriter

LENGTH = Struct("<I")
T = TypeVar("T")


class Job(msgspec.Struct, frozen=True, array_like=True):
    """Where to write, under which numbers, and the descriptor of the folder that relative paths begin in."""

    folder: str
    numbers: list[int]
    pack_bytes_max: int
    root_fd: int | None


def send(stream: IO[bytes], message: Any) -> None:
    data = msgspec.msgpack.encode(message)
    view = memoryview(LENGTH.pack(len(data)) + data)
    while view:
        view = view[stream.write(view) :]
    stream.flush()


def receive(stream: IO[bytes], kind: type[T]) -> T:
    """The next message. Raises EOFError if there is none."""
    (size,) = LENGTH.unpack(_read(stream, LENGTH.size))
    return msgspec.msgpack.decode(_read(stream, size), type=kind)


def _read(stream: IO[bytes], size: int) -> bytes:
    chunks = []
    while size:
        chunk = stream.read(size)
        if not chunk:
            raise EOFError
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


def serve(source: IO[bytes], target: IO[bytes]) -> None:
    """Work until there is nothing left, or the parent is gone."""
    job = receive(source, Job)
    writer = PartWriter(Path(job.folder), job.numbers, job.pack_bytes_max)
    while paths := receive(source, list[bytes]):
        send(target, list(ingest(paths, job.root_fd, writer)))
    send(target, writer.finish())


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent hears it too, and ends us.
    serve(sys.stdin.buffer, sys.stdout.buffer)
