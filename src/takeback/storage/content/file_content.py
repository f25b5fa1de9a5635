"""The content of a file, as blobs.

A file of up to 4 MiB is one blob. A larger one is cut into blocks of 64 KiB, and a list names 256 of them; a
list of lists names 256 lists, and so on until one list names all. So changing one page costs one block and
one list per level, at most 8 KiB each. The name of the file's content is that of its top list.

    list = "TBL1", level u8, 3 zero bytes, bytes it covers u64, names (32 bytes each)

The names in a list of level 1 are those of blocks, above that those of lists one level down. A stretch of zeros
is named by 32 zero bytes, on any level, and is not stored: a sparse file costs only its data. Holes and written
zeros get the same name, so equal bytes always have equal names.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from struct import Struct

import msgspec

from takeback.core.codec import ALGORITHM
from takeback.errors import CorruptionError
from takeback.storage.content.names import DIGEST_BYTES, raw_name, text_name
from takeback.system import durable

WHOLE_BYTES_MAX = 4 << 20
BLOCK_BYTES = 64 << 10
FAN_OUT = 256
ZERO = bytes(DIGEST_BYTES)
"""Names any number of zero bytes."""

_MAGIC = b"TBL1"
_HEAD = Struct("<4sB3xQ")
_ZEROS = bytes(1 << 20)
_PAGE_BYTES = 4096
_LISTED = "-list"
_FAR = sys.maxsize

Put = Callable[[bytes | memoryview], bytes]
"""Stores bytes and returns their digest."""
Get = Callable[[bytes], bytes]
"""Returns the bytes of a digest, verified."""

_Read = Callable[[int, int], bytes | memoryview]
_HasData = Callable[[int, int], bool]


class Content(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The content of a file: its size, and the name of its blob or, if `listed`, of its top list."""

    name: bytes
    size: int
    listed: bool = False

    def __str__(self) -> str:
        """Return the form for journals and people: equal for equal bytes, and different for a list and a blob."""
        text = text_name(self.name)
        return f"{ALGORITHM}{_LISTED}{text.removeprefix(ALGORITHM)}" if self.listed else text


def parse(text: str, size: int) -> Content:
    """Return the content that `str` turned into this text."""
    prefix = f"{ALGORITHM}{_LISTED}:"
    listed = text.startswith(prefix)
    return Content(raw_name(text.replace(prefix, f"{ALGORITHM}:", 1) if listed else text), size, listed)


# Storing


def put_bytes(put: Put, data: bytes) -> Content:
    """Store bytes in memory as a file with these bytes would be stored."""
    if len(data) <= WHOLE_BYTES_MAX:
        return Content(put(data), len(data))
    view = memoryview(data)
    return _store_listed(put, len(data), lambda start, end: view[start:end], lambda *_: True)


def put_file(put: Put, fd: int, size: int) -> Content:
    """Store the first `size` bytes of an open file. The caller checks whether it changed meanwhile."""
    if size <= WHOLE_BYTES_MAX:
        data = os.pread(fd, size, 0)
        return Content(put(data), len(data))

    def read(start: int, end: int) -> bytes:
        # If the file shrank while we read, pad with zeros: its changed key makes the caller try again.
        return os.pread(fd, end - start, start).ljust(end - start, b"\0")

    return _store_listed(put, size, read, _Holes(fd).has_data)


class _Holes:
    """The data ranges of a sparse file, so that its holes are not read. Must be queried in ascending order."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._from = self._to = 0

    def has_data(self, start: int, end: int) -> bool:
        """Return False if the range contains only zeros."""
        if start >= self._to:
            self._look(start)
        return self._from < end

    def _look(self, start: int) -> None:
        try:
            self._from = os.lseek(self._fd, start, os.SEEK_DATA)
            self._to = os.lseek(self._fd, self._from, os.SEEK_HOLE)
        except OSError as error:
            # No data follows; or the file system does not report holes, so everything counts as data.
            self._from = _FAR if error.errno == errno.ENXIO else start
            self._to = _FAR


def _store_listed(put: Put, size: int, read: _Read, has_data: _HasData) -> Content:
    def name_of(level: int, start: int, end: int) -> bytes:
        if not has_data(start, end):
            return ZERO
        if level == 0:
            block = read(start, end)
            return ZERO if block == _ZEROS[: end - start] else put(block)
        names = names_of(level, start, end)
        return ZERO if names == ZERO * (len(names) // DIGEST_BYTES) else put_list(level, end - start, names)

    def names_of(level: int, start: int, end: int) -> bytes:
        step = _span(level - 1)
        return b"".join(name_of(level - 1, at, min(at + step, end)) for at in range(start, end, step))

    def put_list(level: int, covered: int, names: bytes) -> bytes:
        return put(_HEAD.pack(_MAGIC, level, covered) + names)

    top = 1
    while _span(top) < size:
        top += 1
    # The top list is stored even if everything is zero: it records the size.
    return Content(put_list(top, size, names_of(top, 0, size)), size, listed=True)


def _span(level: int) -> int:
    """Return how many bytes a name of this level covers at most."""
    return int(BLOCK_BYTES * FAN_OUT**level)


# Reading


def extents(get: Get, content: Content) -> Iterator[bytes | int]:
    """Yield the content in order: pieces of data, and numbers of zeros that were not stored."""
    if not content.listed:
        yield get(content.name)
        return
    level, covered, _ = _open_list(get, content.name)
    if covered != content.size:
        raise _bad_list(content.name, f"covers {covered} bytes instead of {content.size}")
    yield from _below(get, content.name, level, content.size)


def _below(get: Get, name: bytes, level: int, size: int) -> Iterator[bytes | int]:
    if name == ZERO:
        yield size
    elif level == 0:
        yield get(name)
    else:
        _, _, names = _open_list(get, name, level)
        step = _span(level - 1)
        for child, start in zip(names, range(0, size, step), strict=True):
            yield from _below(get, child, level - 1, min(step, size - start))


def _open_list(get: Get, name: bytes, level: int | None = None) -> tuple[int, int, list[bytes]]:
    data = get(name)
    if len(data) < _HEAD.size or not data.startswith(_MAGIC):
        raise _bad_list(name, "is not a list")
    _, found, covered = _HEAD.unpack_from(data)
    names = [data[at : at + DIGEST_BYTES] for at in range(_HEAD.size, len(data), DIGEST_BYTES)]
    if found < 1 or (level is not None and found != level) or len(names) != -(-covered // _span(found - 1)):
        raise _bad_list(name, "is not the list that belongs here")
    return found, covered, names


def _bad_list(name: bytes, problem: str) -> CorruptionError:
    return CorruptionError(
        f"the content {text_name(name)} {problem}; nothing was changed", hint="see `takeback verify --deep`"
    )


def read(get: Get, content: Content) -> Iterator[bytes]:
    """Yield the content in pieces, including zeros."""
    for extent in extents(get, content):
        if isinstance(extent, bytes):
            yield extent
            continue
        for start in range(0, extent, len(_ZEROS)):
            yield _ZEROS[: extent - start]


def write_file(get: Get, content: Content, fd: int, *, sparse: bool = False) -> None:
    """Fill an empty file. Zeros that were not stored become holes; with `sparse`, other zero pages do too."""
    at = written = 0
    for extent in extents(get, content):
        if isinstance(extent, int):
            at += extent
            continue
        for start, piece in _data_pieces(extent) if sparse else [(0, extent)]:
            if at + start != written:
                os.lseek(fd, at + start, os.SEEK_SET)
            durable.write_all(fd, piece)
            written = at + start + len(piece)
        at += len(extent)
    if written != at:
        os.ftruncate(fd, at)


def _data_pieces(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the stretches of pages that are not all zero."""
    view, start = memoryview(data), 0
    for at in range(0, len(data), _PAGE_BYTES):
        if view[at : at + _PAGE_BYTES] == _ZEROS[: min(_PAGE_BYTES, len(data) - at)]:
            if start < at:
                yield start, data[start:at]
            start = at + _PAGE_BYTES
    if start < len(data):
        yield start, data[start:]


def add_names(get: Get, content: Content, seen: set[bytes]) -> None:
    """Add every blob that this content needs to `seen`; what `seen` already contains is skipped."""
    if not content.listed:
        seen.add(content.name)
    elif content.name not in seen:
        level, _, _ = _open_list(get, content.name)
        _add_below(get, content.name, level, seen)


def _add_below(get: Get, name: bytes, level: int, seen: set[bytes]) -> None:
    if name == ZERO or name in seen:
        return
    if level:
        for child in _open_list(get, name, level)[2]:
            _add_below(get, child, level - 1, seen)
    seen.add(name)
