"""The image of a database: all its pages as of one moment, in a form in which equal databases have equal bytes.

SQLite counts in the header of a file how often it was written, and notes who wrote it last. That differs where
nothing else does, so it is zero in an image, and kept beside it for the day on which the file is made anew. The
journal mode is kept beside it too: an image is never in WAL mode, so that looking at one makes no files.
"""

from __future__ import annotations

import os
import stat

import msgspec
from blake3 import blake3

from takeback.core.change import Version

MAGIC = b"SQLite format 3\0"
HEADER_BYTES = 100
SUFFIXES = (b"-wal", b"-shm", b"-journal")
"""What SQLite keeps beside a database."""

_MODES = slice(18, 20)
_VOLATILE = (slice(24, 28), slice(40, 44), slice(92, 100))
_FRACTIONS = b"\x40\x20\x20"
_WAL = 2
_CHUNK_BYTES = 1 << 20


class Image(msgspec.Struct, frozen=True):
    """What is known of one: its bytes by their digest, and what stood in the header besides."""

    digest: str
    size: int
    wal: bool
    header: bytes = b""
    raw: bool = False
    """The bytes of a damaged one as they are."""


class ImageData(msgspec.Struct, frozen=True, array_like=True):
    """A version's data, as the journal keeps it."""

    content: str
    size: int
    mode: int
    uid: int
    gid: int
    wal: bool
    header: str
    raw: bool = False
    attributes: dict[str, str] = {}
    names: tuple[str, ...] = ()
    """The other paths that were hard links to the same file."""


def is_header(data: bytes) -> bool:
    """Whether a file that begins so is a database."""
    if len(data) < HEADER_BYTES or not data.startswith(MAGIC) or data[21:24] != _FRACTIONS:
        return False
    page = int.from_bytes(data[16:18], "big")
    return page == 1 or (512 <= page <= 32768 and page & (page - 1) == 0)


def is_wal(header: bytes) -> bool:
    return header[19:20] == bytes([_WAL])


def volatile(header: bytes) -> bytes:
    """What an image leaves out of a header."""
    return b"".join(header[part] for part in _VOLATILE)


def normalize(fd: int) -> None:
    """Make an image of a file of pages."""
    header = bytearray(os.pread(fd, HEADER_BYTES, 0))
    for part in _VOLATILE:
        header[part] = bytes(part.stop - part.start)
    header[_MODES] = b"\1\1"
    os.pwrite(fd, header, 0)


def dress(fd: int, *, wal: bool, left_out: bytes = b"") -> None:
    """Make a database file of an image: the journal mode, and what its header had besides."""
    header = bytearray(os.pread(fd, HEADER_BYTES, 0))
    at = 0
    for part in _VOLATILE if left_out else ():
        header[part] = left_out[at : at + part.stop - part.start]
        at += part.stop - part.start
    header[_MODES] = bytes([_WAL, _WAL]) if wal else b"\1\1"
    os.pwrite(fd, header, 0)


def digest_of(fd: int) -> str:
    """The digest of a whole file."""
    found, at = blake3(), 0
    while data := os.pread(fd, _CHUNK_BYTES, at):
        found.update(data)
        at += len(data)
    return found.hexdigest()


def version_of(
    image: Image, content: bytes, found: os.stat_result, attributes: dict[str, str], names: tuple[str, ...]
) -> Version:
    mode = stat.S_IMODE(found.st_mode)
    kept = ImageData(
        content.hex(),
        image.size,
        mode,
        found.st_uid,
        found.st_gid,
        image.wal,
        image.header.hex(),
        image.raw,
        attributes,
        names,
    )
    return Version(_id(image, mode, attributes), str(found.st_mtime_ns), msgspec.to_builtins(kept))


def _id(image: Image, mode: int, attributes: dict[str, str]) -> str:
    kind = "raw" if image.raw else "wal" if image.wal else "journal"
    if attributes:
        kind += f"+{blake3(msgspec.json.encode(sorted(attributes.items()))).hexdigest(8)}"
    return f"{mode:o}:{kind}:{image.digest}"


def kept_of(version: Version) -> ImageData | None:
    """What is kept of a version; None where there is no database, or it could not be captured."""
    return msgspec.convert(version.data, ImageData) if version.data is not None else None


def is_raw(version: Version) -> bool:
    """Whether a damaged one is kept."""
    kept = kept_of(version)
    return kept is not None and kept.raw


def digest_in(version: Version) -> str:
    return version.id.rpartition(":")[2]


def opaque(found: os.stat_result) -> Version:
    """A database that is there and could not be captured."""
    return Version(f"opaque:{found.st_ino}:{found.st_size}:{found.st_mtime_ns}", str(found.st_mtime_ns))


def replaced(version: Version, image: Image, content: bytes, *, wal: bool, mode: int) -> Version:
    """A version like this one, with other content."""
    kept = kept_of(version)
    assert kept is not None
    now = msgspec.structs.replace(kept, content=content.hex(), size=image.size, mode=mode, wal=wal)
    image = msgspec.structs.replace(image, wal=wal)
    return Version(_id(image, mode, now.attributes), version.stamp, msgspec.to_builtins(now))
