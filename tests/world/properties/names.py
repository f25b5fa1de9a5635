"""Names that break programs which think of paths as polite text."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from ..torture import WAYS, prop, remove, write

ODD: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "byte-ff": (b"caf\xff.txt", ("bytes",)),
    "truncated-utf8": (b"half\xe2\x82", ("bytes",)),
    "surrogate-half": (b"\xed\xa0\x80", ("bytes",)),
    "newline": (b"two\nlines", ()),
    "carriage-return": (b"over\rwritten", ()),
    "tab": (b"a\tb", ()),
    "escape-sequence": (b"\x1b[31mred\x1b[0m", ()),
    "control-bytes": (bytes(range(1, 32)) + b"\x7f", ()),
    "leading-dash": (b"-rf", ()),
    "double-dash": (b"--", ()),
    "backslash": (b"back\\slash\\n", ()),
    "quotes": (b'it\'s "quoted" `twice`', ()),
    "trailing-space": (b"space ", ()),
    "leading-space": (b"  space", ()),
    "only-space": (b" ", ()),
    "trailing-dot": (b"dot.", ()),
    "three-dots": (b"...", ()),
    "glob": (b"*?[a-z]{b,c}!", ()),
    "shell": (b"$(rm -rf .);&|<>#~", ()),
    "percent-colon": (b"C:%20%s%n", ()),
    "255-bytes": (b"n" * 255, ()),
    "255-bytes-unicode": (("\u6587" * 85).encode(), ()),
    "right-to-left": ("\u202etxt.\u05d0\u05d1\u05d2".encode(), ()),
    "emoji": ("\U0001f469\u200d\U0001f4bb.py".encode(), ()),
    "zero-width": ("in\u200bvisible".encode(), ()),
    "windows-reserved": (b"CON", ()),
    "temporary-looking": (b".#file.tmp~", ()),
    "equals-json": (b'{"error": null}', ()),
}


def _register(label: str, name: bytes, needs: tuple[str, ...], way: Callable[[bytes], None]) -> None:
    odd = prop(f"name-{label}", needs=needs)(partial(write, name))
    odd.wreck(partial(way, name))


for _number, (_label, (_name, _needs)) in enumerate(ODD.items()):
    _register(_label, _name, _needs, WAYS[_number % len(WAYS)])


@prop("name-every-byte", needs=("bytes", "case"))
def every_byte() -> None:
    for byte in range(1, 256):
        if byte != ord("/"):
            write(b"_" + bytes([byte]), bytes([byte]))


@every_byte.wreck
def _() -> None:
    for number, name in enumerate(sorted(os.listdir(b"."))):
        if number % 2:
            os.unlink(name)
        else:
            write(name, b"other")


@prop("name-unicode-form-pair", needs=("forms",))
def form_pair() -> None:
    write("caf\u00e9".encode(), b"one code point")
    write("cafe\u0301".encode(), b"two code points")


@form_pair.wreck
def _() -> None:
    os.rename("caf\u00e9".encode(), "cafe\u0301".encode())


@prop("name-case-pair", needs=("case",))
def case_pair() -> None:
    write("Makefile", b"upper")
    write("makefile", b"lower")


@case_pair.wreck
def _() -> None:
    os.unlink("makefile")
    os.rename("Makefile", "makefile")


@prop("name-case-rename")
def case_rename() -> None:
    write("README", b"loud")


@case_rename.wreck
def _() -> None:
    os.rename("README", "readme")


@prop("name-odd-directory", needs=("bytes",))
def odd_directory() -> None:
    write(b"\xff\n/ \\/-x", b"deep in odd places")
    write(b"\xff\n/plain")


@odd_directory.wreck
def _() -> None:
    remove(b"\xff\n")


@prop("name-prefix-of-another")
def prefixes() -> None:
    """A plain sort of paths puts `a-b` between `a` and `a/b`."""
    write("a/b")
    write("a-b")
    write("a.b/c")
    write("ab")


@prefixes.wreck
def _() -> None:
    remove(b"a")
    write("a", b"a file now")
    remove(b"a.b")
    os.rename("a-b", "a.b")
