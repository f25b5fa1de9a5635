"""Caches on disk: data that can be computed again, saved so that the next look is cheap.

A cache that is missing, damaged or of another format is ignored.
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
    """Return what was saved in this format; None if it is missing or damaged."""
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
    """Replace the cache as a whole. Return False if that failed, which callers can ignore.

    Not synced: the digest detects a torn file, and the cache can be computed again.
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
