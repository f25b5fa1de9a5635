"""Caches on disk: what can be made again, kept so that the next look is cheap.

One that is missing, damaged or of another format is none.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

import msgspec
from blake3 import blake3

from takeback.system import durable

T = TypeVar("T")

_DIGEST_BYTES = 32


def load(path: Path, magic: bytes, decoder: msgspec.msgpack.Decoder[T]) -> T | None:
    """What was saved under this format, if it is whole."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    digest_at, body_at = len(magic), len(magic) + _DIGEST_BYTES
    body = memoryview(data)[body_at:]
    if data[:digest_at] != magic or blake3(body).digest() != data[digest_at:body_at]:
        return None
    try:
        return decoder.decode(body)
    except msgspec.DecodeError:
        return None


def save(path: Path, magic: bytes, value: object) -> bool:
    """Replace it as a whole; False if that could not be, which is no reason to fail.

    Not synced: the digest tells a torn one, and it can be made again.
    """
    body = msgspec.msgpack.encode(value)
    temporary = path.with_suffix(f".{os.getpid()}")
    try:
        with (
            durable.replacing(path, temporary=temporary, synced=False, named=False) as fd,
            os.fdopen(fd, "wb", closefd=False) as out,
        ):
            out.write(magic + blake3(body).digest() + body)
    except OSError:
        return False
    return True
