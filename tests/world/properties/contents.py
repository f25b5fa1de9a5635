"""What is in files: sizes at every boundary, holes, and edits that move little or much."""

from __future__ import annotations

import mmap
import os
from functools import partial

from ..torture import WAYS, noise, overwrite, patch, prop, remove, truncate, write

KIB = 1024
MIB = 1024 * KIB

PLAIN: dict[str, bytes] = {
    "empty": b"",
    "one-byte": b"x",
    "one-newline": b"\n",
    "nul-bytes": b"\x00a\x00\x00b\x00",
    "crlf": b"one\r\ntwo\r\n",
    "mixed-line-ends": b"one\r\ntwo\nthree\rfour",
    "no-newline-at-end": b"last line",
    "utf16": "\ufeffwide".encode("utf-16"),
    "latin1": "caf\u00e9".encode("latin-1"),
    "merge-markers": b"<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n",
    "already-compressed": b"\x28\xb5\x2f\xfd" + noise(5000),
    "very-compressible": b"spam " * 40_000,
}

WRITABLE_WAYS = [way for way in WAYS if way is not truncate]
"""An empty file cannot be truncated any further."""

for _number, (_label, _data) in enumerate(PLAIN.items()):
    _plain = prop(f"content-{_label}")(partial(write, b"file", _data))
    _plain.wreck(partial(WRITABLE_WAYS[_number % len(WRITABLE_WAYS)], b"file"))


def _sizes(label: str, sizes: tuple[int, ...]) -> None:
    def build() -> None:
        for size in sizes:
            write(f"deleted-{size}", noise(size, seed=size))
            write(f"edited-{size}", noise(size, seed=size + 1))
            write(f"grown-{size}", noise(size, seed=size + 2))
            write(f"cut-{size}", noise(size, seed=size + 3))

    def wreck() -> None:
        for size in sizes:
            os.unlink(f"deleted-{size}")
            patch(f"edited-{size}", size - 1, b"?")
            patch(f"grown-{size}", size, b"tail")
            os.truncate(f"cut-{size}", size // 2)

    prop(f"size-{label}")(build).wreck(wreck)


_sizes("around-a-page", (4095, 4096, 4097))
_sizes("around-64-kib", (64 * KIB - 1, 64 * KIB, 64 * KIB + 1))
_sizes("around-128-kib", (128 * KIB - 1, 128 * KIB, 128 * KIB + 1))
_sizes("just-below-4-mib", (4 * MIB - 1,))
_sizes("exactly-4-mib", (4 * MIB,))
_sizes("just-above-4-mib", (4 * MIB + 1,))


@prop("large-file-with-one-page-changed")
def one_page() -> None:
    write("large", noise(16 * MIB))


@one_page.wreck
def _() -> None:
    patch("large", 9 * MIB + 123, b"p" * 4096)


@prop("large-file-with-bytes-inserted-in-front")
def inserted() -> None:
    write("large", noise(6 * MIB, seed=2))


@inserted.wreck
def _() -> None:
    write("large", b"in front" + noise(6 * MIB, seed=2))


@prop("large-file-deleted")
def large_deleted() -> None:
    write("large", noise(5 * MIB + 4321, seed=3), mode=0o640)


_deleted = large_deleted.wreck(partial(os.unlink, "large"))


@prop("large-file-across-the-limit")
def across_limit() -> None:
    """Whole before, in blocks after, and the other way round."""
    write("grows", noise(4 * MIB - 10, seed=4))
    write("shrinks", noise(4 * MIB + 10, seed=5))


@across_limit.wreck
def _() -> None:
    patch("grows", 4 * MIB - 10, b"+" * 1000)
    os.truncate("shrinks", 4 * MIB - 1000)


@prop("mapped-write")
def mapped() -> None:
    write("mapped", noise(64 * KIB, seed=6))


@mapped.wreck
def _() -> None:
    with open("mapped", "r+b") as file, mmap.mmap(file.fileno(), 0) as view:
        view[40_000:40_004] = b"mmap"


@prop("many-equal-files")
def equal_files() -> None:
    for number in range(40):
        write(f"copy-{number}", b"all the same\n" * 100)


@equal_files.wreck
def _() -> None:
    for number in range(0, 40, 2):
        overwrite(b"copy-%d" % number)
    remove(b"copy-1")


@prop("contents-exchanged")
def exchanged() -> None:
    write("a", b"content of a", mode=0o600)
    write("b", b"content of b", mode=0o644)


@exchanged.wreck
def _() -> None:
    os.rename("a", "c")
    os.rename("b", "a")
    os.rename("c", "b")


# Holes.


def _sparse(name: str, size: int, islands: tuple[int, ...]) -> None:
    with open(name, "wb") as file:
        for place in islands:
            file.seek(place)
            file.write(noise(4096, seed=place))
        file.truncate(size)


@prop("sparse-file", needs=("holes",))
def sparse() -> None:
    for name in ("deleted", "edited", "filled"):
        _sparse(name, 8 * MIB, (0, 3 * MIB, 8 * MIB - 4096))


@sparse.wreck
def _() -> None:
    os.unlink("deleted")
    patch("edited", 5 * MIB, b"island")
    write("filled", noise(8 * MIB, seed=7))


@prop("sparse-small-file-ends-in-a-hole", needs=("holes",))
def trailing_hole() -> None:
    _sparse("tail", 1 * MIB, (0,))


@trailing_hole.wreck
def _() -> None:
    os.truncate("tail", 4096)


@prop("sparse-all-hole", needs=("holes",))
def all_hole() -> None:
    _sparse("nothing", 64 * MIB, ())


@all_hole.wreck
def _() -> None:
    os.unlink("nothing")


@prop("sparse-4-gib", needs=("holes",))
def huge_sparse() -> None:
    _sparse("image", 4 * KIB * MIB + 5, (0, 2 * KIB * MIB + 77, 4 * KIB * MIB - 9000))


@huge_sparse.wreck
def _() -> None:
    os.unlink("image")


@prop("sparse-4-gib-edited", needs=("holes",))
def huge_sparse_edited() -> None:
    _sparse("image", 4 * KIB * MIB, (1 * KIB * MIB,))


@huge_sparse_edited.wreck
def _() -> None:
    patch("image", 3 * KIB * MIB, b"one block")
    os.truncate("image", 3 * KIB * MIB + 5 * MIB)
