"""The image of a database: all its pages at one moment, in a form in which equal databases have equal bytes.

SQLite counts in the file header how often the file was written, and records which version wrote it last. That may
differ when nothing else does, so it is zeroed in an image, and kept beside it for the day when the file is
recreated. The journal mode is kept beside it too: an image is never in WAL mode, so that reading it creates no
files.
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
"""The suffixes of the files that SQLite keeps beside a database."""

_MODES = slice(18, 20)
_VOLATILE = (slice(24, 28), slice(40, 44), slice(92, 100))
_FRACTIONS = b"\x40\x20\x20"
_WAL = 2
_CHUNK_BYTES = 1 << 20


class Image(msgspec.Struct, frozen=True):
    """An image: its bytes by digest, and the rest of the header."""

    digest: str
    size: int
    wal: bool
    header: bytes = b""
    raw: bool = False
    """Whether it holds the unchanged bytes of a damaged database."""


class ImageData(msgspec.Struct, frozen=True, array_like=True):
    """A version's data, as the journal stores it."""

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
    """Return True if a file that begins with these bytes is a database."""
    if len(data) < HEADER_BYTES or not data.startswith(MAGIC) or data[21:24] != _FRACTIONS:
        return False
    page = int.from_bytes(data[16:18], "big")
    return page == 1 or (512 <= page <= 32768 and page & (page - 1) == 0)


def is_wal(header: bytes) -> bool:
    return header[19:20] == bytes([_WAL])


def volatile(header: bytes) -> bytes:
    """Return what an image leaves out of a header."""
    return b"".join(header[part] for part in _VOLATILE)


def normalize(fd: int) -> None:
    """Turn a copy of a database into an image."""
    header = bytearray(os.pread(fd, HEADER_BYTES, 0))
    for part in _VOLATILE:
        header[part] = bytes(part.stop - part.start)
    header[_MODES] = b"\1\1"
    os.pwrite(fd, header, 0)


def dress(fd: int, *, wal: bool, left_out: bytes = b"") -> None:
    """Turn an image into a database file: set the journal mode, and restore the rest of the header."""
    header = bytearray(os.pread(fd, HEADER_BYTES, 0))
    at = 0
    for part in _VOLATILE if left_out else ():
        header[part] = left_out[at : at + part.stop - part.start]
        at += part.stop - part.start
    header[_MODES] = bytes([_WAL, _WAL]) if wal else b"\1\1"
    os.pwrite(fd, header, 0)


def digest_of(fd: int) -> str:
    """Return the digest of a whole file."""
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
    """Return the data of a version; None if there is no database, or it could not be captured."""
    return msgspec.convert(version.data, ImageData) if version.data is not None else None


def is_raw(version: Version) -> bool:
    """Return True if the version holds the bytes of a damaged database."""
    kept = kept_of(version)
    return kept is not None and kept.raw


def digest_in(version: Version) -> str:
    return version.id.rpartition(":")[2]


def opaque(found: os.stat_result) -> Version:
    """Return the version of an existing database that could not be captured."""
    return Version(f"opaque:{found.st_ino}:{found.st_size}:{found.st_mtime_ns}", str(found.st_mtime_ns))


def replaced(version: Version, image: Image, content: bytes, *, wal: bool, mode: int) -> Version:
    """Return a version like this one, with other content."""
    kept = kept_of(version)
    assert kept is not None
    now = msgspec.structs.replace(kept, content=content.hex(), size=image.size, mode=mode, wal=wal)
    image = msgspec.structs.replace(image, wal=wal)
    return Version(_id(image, mode, now.attributes), version.stamp, msgspec.to_builtins(now))
