"""A process that reads files into its own packs: `python -m takeback.storage.content.packs.ingest.worker`.

It exchanges frames over its standard input and output: a length (u32) and that many bytes of msgpack. The first
frame in is an IngestJob. Then each frame in is a Share, answered by a list of Ingested; an empty Share ends it, and
is answered by the list of finished PackParts. No content goes through the pipes.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from struct import Struct
from typing import IO, Any, TypeVar

import msgspec

from takeback.storage.content.packs.ingest.files import ingest
from takeback.storage.content.packs.ingest.parts import PartWriter

LENGTH = Struct("<I")
T = TypeVar("T")


class IngestJob(msgspec.Struct, frozen=True, array_like=True):
    """Where to write, and the descriptor of the folder that relative paths start from."""

    folder: str
    pack_bytes_max: int
    root_fd: int | None


class Share(msgspec.Struct, frozen=True, array_like=True):
    """Paths to read, and the numbers of `packs` more packs that they may fill, counting from `first`.

    Not a list of numbers: for a huge file it would not fit into the pipe, and both sides would deadlock.
    """

    paths: list[bytes] = []
    first: int = 0
    packs: int = 0


def send(stream: IO[bytes], message: Any) -> None:
    data = msgspec.msgpack.encode(message)
    view = memoryview(LENGTH.pack(len(data)) + data)
    while view:
        view = view[stream.write(view) :]
    stream.flush()


def receive(stream: IO[bytes], kind: type[T]) -> T:
    """Return the next message. Raise EOFError if there is none."""
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
    job = receive(source, IngestJob)
    writer = PartWriter(Path(job.folder), (), job.pack_bytes_max)
    while (share := receive(source, Share)).paths:
        writer.allow(range(share.first, share.first + share.packs))
        send(target, list(ingest(share.paths, job.root_fd, writer.put)))
    send(target, writer.finish())


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets the signal too, and ends us
    serve(sys.stdin.buffer, sys.stdout.buffer)
