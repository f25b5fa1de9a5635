"""The list of files that make up the store: one small file, replaced as a whole.

    catalog = "takebackcatl", version u32, crc32 of the rest u32, then msgpack:
              {next: the next free number, packs: [[number, end, blobs, sealed], …],
               runs: [numbers, oldest first], log: number}

Packs, runs and logs are NNNNNNNN.pack, .idx and .log, numbered by one counter that only rises. The catalog is
derived, like the whole index: a store without one has the empty catalog, whose log is number 0; and a pack that
neither catalog nor log lists is read and taken in by the next writer.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from struct import Struct
from zlib import crc32

import msgspec

from takeback.errors import FormatTooNew
from takeback.storage.content.packs.format.log import Pack
from takeback.system import durable

NAME = "catalog"
_MAGIC, _VERSION = b"takebackcatl", 1
_HEAD = Struct("<12sII")
_DIGITS = 8


class Catalog(msgspec.Struct, frozen=True):
    next: int = 1
    packs: tuple[Pack, ...] = ()
    runs: tuple[int, ...] = ()
    log: int = 0


class BadCatalog(Exception):
    """A catalog that cannot be read. It can be rebuilt from the packs."""


def pack_path(folder: Path, number: int) -> Path:
    return folder / f"{number:0{_DIGITS}}.pack"


def part_path(folder: Path, number: int) -> Path:
    """Return the path of a pack that a worker is still writing."""
    return folder / f"{number:0{_DIGITS}}.part"


def run_path(folder: Path, number: int) -> Path:
    return folder / f"{number:0{_DIGITS}}.idx"


def log_path(folder: Path, number: int) -> Path:
    return folder / f"{number:0{_DIGITS}}.log"


def listing(folder: Path) -> dict[int, int]:
    """Return the existing packs, with their sizes."""
    sizes = {}
    for entry in os.scandir(folder):
        stem, dot, rest = entry.name.partition(".pack")
        if dot and not rest and stem.isdecimal() and len(stem) >= _DIGITS:
            with contextlib.suppress(FileNotFoundError):  # just swept away
                sizes[int(stem)] = entry.stat().st_size
    return sizes


def save(folder: Path, catalog: Catalog) -> None:
    body = msgspec.msgpack.encode(catalog)
    path = folder / NAME
    data = _HEAD.pack(_MAGIC, _VERSION, crc32(body)) + body
    durable.replace(path, data, temporary=path.with_suffix(".tmp"))


def decode(data: bytes) -> Catalog:
    if len(data) < _HEAD.size:
        raise BadCatalog("it is too short")
    magic, version, crc = _HEAD.unpack(data[: _HEAD.size])
    if magic == _MAGIC and version > _VERSION:
        raise FormatTooNew(
            f"the content store was written in format {version}; this Takeback reads up to {_VERSION}",
            hint="use the newer Takeback that wrote it; nothing was changed",
        )
    body = data[_HEAD.size :]
    if magic != _MAGIC or crc32(body) != crc:
        raise BadCatalog("its checksum does not match")
    try:
        return msgspec.msgpack.decode(body, type=Catalog)
    except msgspec.DecodeError as error:
        raise BadCatalog(str(error)) from error
